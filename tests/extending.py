"""The decoder of docs/extending.md, added as the page says."""

import re
import sys
from pathlib import Path
from types import ModuleType

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
NAME = "joint_window"
PLACE = f"mars.decoding.{NAME}"


def blocks() -> list[str]:
    """The page's Python, block by block: the decoder's file, its entry, its test."""
    found = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(found) == 3
    return found


def add() -> ModuleType:
    """One file with the decoder and its entry, imported: the module."""
    decoder, entry, _ = blocks()
    module = sys.modules[PLACE] = ModuleType(PLACE)
    exec(compile(decoder, f"{PAGE.name}: decoder", "exec"), vars(module))
    exec(compile(entry, f"{PAGE.name}: entry", "exec"), {})
    return module
