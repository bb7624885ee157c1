"""Texts of the program's as HTML may hold them."""

import html as markup


def escaped(text):
    return markup.escape(str(text), quote=True)
