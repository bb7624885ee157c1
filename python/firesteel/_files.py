"""Files that a reader finds whole: the old one, or the new one."""

import os
import tempfile


def path_of(path, who):
    """The absolute path of what a user gave; `%p` in it is the process's number."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{who} needs a path, not {path!r}")
    return os.path.abspath(os.fspath(path)).replace("%p", str(os.getpid()))


def write(path, text):
    """Writes under another name first."""
    # A path that is no text is shown with what could be read of it.
    write_bytes(path, text.encode("utf-8", errors="replace"))


def write_bytes(path, data):
    handle, unfinished = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".firesteel-", suffix=".unfinished")
    try:
        with open(handle, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(unfinished, 0o666 & ~mask)
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise
