"""The decoder of docs/extending.md, added as the page says; as a script, a module's command with it.

    python tests/extending.py app/scripted_pair.py RESULTS

runs the script of that path, under this folder, with the decoder in the table.
"""

import re
import runpy
import sys
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "extending.md"
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


if __name__ == "__main__":
    script = HERE / sys.argv[1]
    add()
    sys.argv = [str(script), *sys.argv[2:]]
    sys.path[:0] = [str(script.parent)]
    runpy.run_path(str(script), run_name="__main__")
