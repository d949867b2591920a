"""The drawing library that browsers get: the version that figures are written for, with all that they draw."""

import ast
from pathlib import Path

import plotly.graph_objects as go
from plotly.basedatatypes import BaseTraceType
from plotly.offline import get_plotlyjs_version

from analysis import plotly_script

ROOT = Path(__file__).parents[2]


def test_it_is_the_python_packages_version() -> None:
    assert plotly_script.version() == get_plotlyjs_version()
    assert "MIT license" in plotly_script.script()[:200]


def test_it_has_all_traces_that_we_draw() -> None:
    kinds = {name.lower() for name in dir(go) if _is_trace(getattr(go, name))}
    drawn: set[str] = set()
    for file in [*(ROOT / "analysis").rglob("*.py"), *(ROOT / "app").rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and (node.attr.startswith("add_") or ast.unparse(node.value) == "go"):
                drawn.add(node.attr.removeprefix("add_").lower())
    assert drawn & kinds
    for name in drawn & kinds:
        assert f'name:"{name}"' in plotly_script.script() or f'name: "{name}"' in plotly_script.script()


def _is_trace(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, BaseTraceType)
