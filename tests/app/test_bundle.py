"""The page's modules and style sheets, as one script and one sheet: everything once, in order, and as it is alone."""

import gzip
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from analysis import plotly_script
from app.browser import bundle
from app.browser.bundle import ROOT, mount, script, styles

MODULES = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("app/browser/**/*.js")}
SHEETS = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("app/browser/**/*.css")}
SITE = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("mars_site/browser/**/*.js")}
ENGINE = {f"mars_site/browser/live/{name}.js" for name in ("worker", "decoding", "lane", "model", "text", "weights")}
LOAD = "globalThis.window = {};"
Write = Callable[..., None]


def named(text: str) -> list[str]:
    """The modules of a bundle, in order."""
    return re.findall(r"^// ([\w/-]+\.js)\nconst ", text, re.MULTILINE)


def run(node: str, source: str, *options: str) -> str:
    done = subprocess.run([node, *options, "-"], input=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """`write("a/b.js", "text")`: a module in a folder that takes the place of the page's."""
    monkeypatch.setattr(bundle, "ROOT", tmp_path)

    def write(name: str, text: str) -> None:
        path = tmp_path / "app/browser" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    return write


def bundled() -> str:
    return script.__wrapped__("app/browser/page.js")


def test_every_module_is_in_the_page_once() -> None:
    found = named(script())
    assert len(found) == len(set(found))
    assert set(found) == MODULES
    site, keeper = (f"mars_site/browser/{name}.js" for name in ("shell", "worker"))
    assert set(named(script(site))) == MODULES | SITE - ENGINE - {keeper}
    assert set(named(script("mars_site/browser/live/worker.js"))) == ENGINE


def test_every_style_sheet_is_in_the_page_once() -> None:
    text = styles()
    assert not re.search(r"@import|^  (:root|html|body|\.gradio-container)", text, re.MULTILINE)  # Gradio loses these
    for name in SHEETS - {"app/browser/page.css"}:
        rules = (ROOT / name).read_text(encoding="utf-8").split("*/", 1)[1].strip().splitlines()
        assert text.count("\n".join(rules[:2])) == 1, name


def test_the_page_has_a_function_for_every_component(node: str) -> None:
    asked = {name for path in ROOT.glob("app/**/*.py") for name in re.findall(r'\bdrawn\("(\w+)"', path.read_text())}
    assert len(asked) > 8
    found = json.loads(run(node, f"{LOAD}{script()}console.log(JSON.stringify(Object.keys(window.lens)))"))
    assert asked <= set(found)
    assert ".then(() => lens.stage({ element, props, watch, " in mount("stage")
    assert '"submit"' in mount("stage")  # Gradio looks for the event's name in the text


def test_bundled_modules_mean_the_same_as_alone(node: str) -> None:
    names = sorted(MODULES - {"app/browser/page.js"})
    whole = script().removesuffix("})();\n")
    variables = ", ".join(f'"{name}": {bundle._variable(name)}' for name in names)
    describe = """const described = (all) => JSON.stringify(Object.entries(all).map(([name, exports]) =>
        [name, Object.entries(exports).sort().map(([key, value]) => [key, String(value)])]));"""
    bundled = run(node, f"{LOAD}{describe}{whole}console.log(described({{ {variables} }}));}})();")
    imports = "".join(f'all["{name}"] = await import("{(ROOT / name).as_uri()}");' for name in names)
    alone = run(node, f"{LOAD}{describe}const all = {{}};{imports}console.log(described(all));", "--input-type=module")
    assert json.loads(bundled) == json.loads(alone)


def test_modules_run_once_in_order_of_imports(node: str, write: Write) -> None:
    write(
        "page.js", 'import { b, two as deux } from "./a/b.js";\nimport "./c.js";\n\nsaid.push(`page ${b()} ${deux}`);\n'
    )
    exports = "export function b() {\n  return c;\n}\nexport const two = 2;\n"
    write("a/b.js", f'import {{\n  c,\n}} from "../c.js";\n{exports}said.push("b");\n')
    write("c.js", 'const b = "own";\nexport const c = `${b}\n import`;\nsaid.push("c");\n')
    said = run(node, f"globalThis.said = [];{bundled()}console.log(JSON.stringify(said), typeof b)")
    assert said.strip() == '["c","b","page own\\n import 2"] undefined'
    assert bundled() == bundled()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('import { b } from "./a.js";\n', "page.js imports b, which app/browser/a.js does not export"),
        (
            'import "./circle.js";\n',
            "must not import in a circle, got app/browser/page.js -> app/browser/circle.js -> ",
        ),
        ('import a from "./a.js";\n', "page.js must import and export as app/browser/bundle.py says, got 'import a"),
        ('import * as a from "./a.js";\n', "must import and export as"),
        ('import { a } from "plotly";\n', "must import and export as"),
        ('const a = await import("./a.js");\n', "must import and export as"),
        ("export default 3;\n", "must import and export as"),
        ("export let a = 3;\n", "must import and export as"),
        ('export { a } from "./a.js";\n', "must import and export as"),
        ('import { a } from "../outside.js";\n', "must import from a package's folder browser, got ../outside.js"),
        ('import { a } from "../../../outside.js";\n', "outside.js"),
    ],
)
def test_what_a_bundle_cannot_keep_is_refused(write: Write, text: str, says: str) -> None:
    write("page.js", text)
    write("a.js", "export const a = 1;\n")
    write("circle.js", 'import "./page.js";\n')
    with pytest.raises(ValueError, match=re.escape(says)):
        bundled()


def test_style_sheets_come_in_order_of_imports(write: Write) -> None:
    write("page.css", '@import "a/one.css";\n@import "two.css";\np { font: 10px serif; }\n')
    write("a/one.css", '@import "../two.css";\na { top: 1px; }\n')
    write("two.css", "b { top: 2px; }\n")
    found = styles.__wrapped__("app/browser/page.css").split("\n")
    expected = ["b { top: 2px; }", "a { top: 1px; }", "p { font: 10px serif; }"]
    assert [line for line in found if line] == expected


# The page's own script stands behind the table of the decoders. Files are compared outside `assert`: where CI is set,
# pytest explains how megabytes differ, for minutes.
FILES = [(bundle.page_script(), bundle.script().encode()), (bundle.plotly(), plotly_script.PATH.read_bytes())]
CLIENT = TestClient(Starlette(routes=bundle.routes()))


@pytest.mark.parametrize(("address", "content"), FILES, ids=["page", "plotly"])
def test_a_script_is_served_and_kept_for_good(address: str, content: bytes) -> None:
    answer = CLIENT.get("/" + address, headers={"accept-encoding": "identity"})
    whole = answer.content.endswith(content)
    assert whole
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize(("address", "content"), FILES, ids=["page", "plotly"])
def test_it_is_packed_for_those_who_can_unpack(address: str, content: bytes) -> None:
    with CLIENT.stream("GET", "/" + address, headers={"accept-encoding": "gzip"}) as answer:
        packed = b"".join(answer.iter_raw())
    whole = gzip.decompress(packed).endswith(content)
    assert whole
    assert len(packed) < len(content) / 2


@pytest.mark.parametrize("changed", ["app.browser.bundle.script", "mars.decoders.as_json"])
def test_another_script_has_another_address(changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = bundle.page_script()
    monkeypatch.setattr(changed, lambda: "other();")
    assert bundle.page_script() != before


def test_no_rule_inside_media_begins_at_the_root() -> None:
    blocks = re.findall(r"@media[^{]*\{((?:[^{}]*\{[^{}]*\})*)", bundle.styles())
    assert blocks
    at_root = re.compile(r"(?:^|[,}])\s*(?::root|html|body|\.dark|\.lens-(?:projector|settings-open|begun))\b[^{]*\{")
    assert [rule for block in blocks for rule in at_root.findall(block)] == []  # Gradio's copy of it matches nothing
