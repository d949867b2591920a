"""Sentences for people: complete, and without a path of this machine, which is for the log."""

import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from app.models.placement import is_out_of_memory
from mars.config import SETTINGS
from mars.decoders import TABLE

UNKNOWN = "The page asked for something that does not exist. Reload it."
_log = logging.getLogger(__name__)
_TITLES = {name: one.title for name, one in SETTINGS.items()} | {name: one.title for name, one in TABLE.items()}
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


def in_words(sentence: str) -> str:
    """The sentence as the page says it, with the names that settings and decoders have there."""
    said = re.sub(r"[a-z]+(?:_[a-z]+)+", lambda found: _TITLES.get(found[0], found[0]), sentence)
    return said[:1].upper() + said[1:]


def error_sentence(error: ValueError | str) -> str:
    """The sentence for a person about an error whose message says what is wrong."""
    return complete(without_paths(str(error)))


def failure(error: BaseException) -> str:
    """The sentence for a person about a run that failed unexpectedly; the reason goes to the log."""
    if is_out_of_memory(error):
        return "The device has no memory left for this run. Try again later, or ask for a shorter answer."
    return f"The run failed ({type(error).__name__}); the terminal says more. The app goes on: try again."


def answered(question: object, asks: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]) -> dict[str, Any]:
    """The answer to the page's {"ask": one of these, "ticket": n, …}, or the `problem`; never an exception."""
    given = question if isinstance(question, dict) else {}
    ask, ticket = given.get("ask"), given.get("ticket")
    try:
        if not isinstance(ask, str) or ask not in asks:
            raise ValueError(UNKNOWN)
        told = asks[ask](given)
    except ValueError as error:
        told = {"problem": error_sentence(error)}
    except Exception as error:  # noqa: BLE001 - whatever it was, the page says so and lives on
        _log.exception("a question failed")
        told = {"problem": failure(error).replace("The run failed", "That failed")}
    return {"ticket": ticket if type(ticket) is int else None, **told}
