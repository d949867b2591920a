"""Bundles the browser-side files of the page, a module or style sheet with all that it imports, and serves scripts.

No build step, and no file from elsewhere. The modules in a package's folder `browser` are ES modules that a browser or
Node can load as they are; the page gets them as one script, in which each module is a function that returns its
exports. So a module does the same in the bundle as alone. Three rules keep the bundler short: imports are static and
name what they import; only functions, classes and constants are exported; no import goes in a circle.

The page fetches its own script, and the drawing library with the first figure. Each address names the content, by its
hash or its version, so that a browser may keep the file for good.
"""

import gzip
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from analysis import plotly_script
from mars import decoders

ROOT = Path(__file__).resolve().parents[2]
"""The folder of the packages: a file goes by its path below it, such as `app/browser/page.js`."""
PAGE_PATH, PLOTLY_PATH = "/static/lens.js", "/static/plotly.min.js"
_FOR_GOOD = "public, max-age=31536000, immutable"
_IMPORT = re.compile(r"""^import (?:\{([^{}]+)\} from )?"(\.{1,2}/[\w./-]+\.js)";\n""", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:(?:async )?function\*?|class|const) (\w+))", re.MULTILINE)
_OTHERWISE = re.compile(r"^(?:import|export)\b.*|\bimport(?:\(|\.meta\b)", re.MULTILINE)
_SHEET = re.compile(r"""^@import "([\w./-]+\.css)";\n""", re.MULTILINE)


def mount(name: str) -> str:
    """The script for `gr.HTML(js_on_load=...)`: it calls the function of this name in page.js."""
    given = 'element, props, watch, tell: trigger, submit: (data) => trigger("submit", data)'
    return f"{loaded()}.then(() => lens.{name}({{ {given} }}));"


def loaded() -> str:
    """A promise, in JavaScript, that the page's own script has run; whoever asks first fetches it."""
    return f'import(new URL("{page_script()}", document.baseURI))'


@cache
def script(entry: str = "app/browser/page.js") -> str:
    """A module with all that it imports as one script without global names; ValueError if one breaks a rule above."""
    parts = dict[str, str]()
    _add(entry, (), parts, {})
    return f'(() => {{\n"use strict";\n{"".join(parts.values())}}})();\n'


@cache
def styles(entry: str = "app/browser/page.css") -> str:
    """A style sheet and all that it imports."""
    return "".join(_sheets(entry, set()))


def decoder_table() -> str:
    """The table of the decoders as an element of the page, which shared/decoders.js reads."""
    return f'<script type="application/json" id="lens-decoders">{decoders.as_json()}</script>'


def page_script() -> str:
    """The address of the page's own script as it is now, relative to the page: a decoder may have been added."""
    return f"{PAGE_PATH[1:]}?{hashlib.sha256(_page().encode()).hexdigest()[:16]}"


def _page() -> str:
    """The page's own script; first it puts the table of the decoders into the page."""
    table = f'{{ type: "application/json", id: "lens-decoders", textContent: {json.dumps(decoders.as_json())} }}'
    return f'document.head.append(Object.assign(document.createElement("script"), {table}));\n{script()}'


@cache
def plotly() -> str:
    """The address of the drawing library, relative to the page."""
    return f"{PLOTLY_PATH[1:]}?{plotly_script.version()}"


def routes() -> list[Route]:
    """The routes, which need no login: anybody can have these files."""
    return [route(PAGE_PATH, lambda: _page().encode()), route(PLOTLY_PATH, lambda: plotly_script.script().encode())]


def route(path: str, read: Callable[[], bytes], kept: str = _FOR_GOOD, kind: str = "text/javascript") -> Route:
    """The route of a file that needs no login; compressed for browsers that accept it."""

    @cache
    def packed() -> bytes:
        return gzip.compress(read(), compresslevel=6)

    def answer(request: Request) -> Response:
        unpacks = "gzip" in request.headers.get("accept-encoding", "")
        headers = {"cache-control": kept, "vary": "accept-encoding"}
        if unpacks:
            headers["content-encoding"] = "gzip"
        return Response(packed() if unpacks else read(), media_type=kind, headers=headers)

    return Route(path, answer, methods=["GET", "HEAD"])


def _add(name: str, importers: tuple[str, ...], parts: dict[str, str], exports: dict[str, list[str]]) -> None:
    """Add a module to the `parts`, behind those that it imports, and what it exports."""
    if name in importers:
        raise ValueError(f"modules must not import in a circle, got {' -> '.join([*importers, name])}")
    if name in exports:
        return
    source, imports = (ROOT / name).read_text(encoding="utf-8"), ""
    for names, path in _IMPORT.findall(source):
        other = _beside(name, path)
        _add(other, (*importers, name), parts, exports)
        wanted = [each.split(" as ") for each in re.split(r"\s*,\s*", names.strip().rstrip(",")) if each]
        for each, *_ in wanted:
            if each not in exports[other]:
                raise ValueError(f"{name} imports {each}, which {other} does not export")
        if wanted:
            imports += f"const {{ {', '.join(': '.join(each) for each in wanted)} }} = {_variable(other)};\n"
    exports[name] = _EXPORT.findall(source)
    body = _EXPORT.sub("", _IMPORT.sub("", source))
    if found := _OTHERWISE.search(body):
        raise ValueError(f"{name} must import and export as app/browser/bundle.py says, got {found[0]!r}")
    inside = f"{imports}{body}return {{ {', '.join(exports[name])} }};\n"
    parts[name] = f"\n// {name}\nconst {_variable(name)} = (() => {{\n{inside}}})();\n"


def _beside(name: str, path: str) -> str:
    """The name of the file that a relative path means in the file of this name; ValueError if it is none of ours."""
    found = (ROOT / name).parent.joinpath(path).resolve().relative_to(ROOT)
    if found.parts[1:2] != ("browser",):
        raise ValueError(f"{name} must import from a package's folder browser, got {path}")
    return found.as_posix()


def _variable(name: str) -> str:
    return "_" + re.sub(r"\W", "_", name.removesuffix(".js"))


def _sheets(name: str, seen: set[str]) -> Iterator[str]:
    seen.add(name)
    text = (ROOT / name).read_text(encoding="utf-8")
    for path in _SHEET.findall(text):
        other = _beside(name, path)
        if other not in seen:
            yield from _sheets(other, seen)
    yield _SHEET.sub("", text) + "\n"
