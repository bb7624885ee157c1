"""How `make docs` builds the site: Sphinx reads these pages as they stand, and nothing is fetched."""

import pathlib
import re

_version = pathlib.Path(__file__).parents[1].joinpath("python/firesteel/_version.py").read_text(encoding="utf-8")

project = "Firesteel"
copyright = "the authors of Firesteel"
release = version = re.search(r'^__version__ = "(.*)"', _version, re.MULTILINE)[1]
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["pictures"]
myst_heading_anchors = 3  # pages link to headings as GitHub names them

html_theme = "furo"
html_title = f"Firesteel {release}"
html_copy_source = False
html_show_sphinx = False
pygments_style = "default"
pygments_dark_style = "github-dark"
