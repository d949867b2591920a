"""Sentences for people: complete, and without a path of this machine, which is for the log."""

import re
from collections.abc import Mapping
from pathlib import Path

from app.models.placement import is_out_of_memory

_PATH = re.compile(r"(?<![\w./:~\\-])(?:~|[A-Za-z]:)?(?:[\\/][^\s\\/'\"“”‘’,;:()<>]+){2,}[\\/]?")


def complete(text: str) -> str:
    """`text` with a full stop, unless it ends like a sentence."""
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else text + "."


def without_paths(text: str, names: Mapping[str, str] | None = None) -> str:
    """`text` with every path of two parts or more shortened to its last part.

    `names` maps folders to names: such a folder is replaced by its name, a file in it by "file of name".
    """
    for source, name in (names or {}).items():
        literal = name.replace("\\", r"\\")
        for folder in sorted({source, str(Path(source).expanduser()), str(Path(source).resolve())}, key=len)[::-1]:
            text = re.sub(rf"{re.escape(folder.rstrip('/'))}/([\w.*-]+)", rf"\1 of {literal}", text)
            text = re.sub(rf"(?<![\w./-]){re.escape(folder)}(?![\w/-])", literal, text)
    return _PATH.sub(lambda found: re.split(r"[\\/]", found[0].rstrip("\\/"))[-1], text)


def error_sentence(error: ValueError | str) -> str:
    """The sentence for a person about an error whose message says what is wrong."""
    return complete(without_paths(str(error)))


def failure(error: BaseException) -> str:
    """The sentence for a person about a run that failed unexpectedly; the reason goes to the log."""
    if is_out_of_memory(error):
        return "The device has no memory left for this run. Try again later, or ask for a shorter answer."
    return f"The run failed ({type(error).__name__}); the terminal says more. The app goes on: try again."
