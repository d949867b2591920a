"""`python -m app export`: write the page as static files."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

from analysis import plotly_script
from app.browser import bundle
from app.server import serving

FONTS = ("IBMPlexSans/IBMPlexSans", "IBMPlexMono/IBMPlexMono")
WEIGHTS = ("Regular", "Bold")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the folder; 0, or 2 if that is not possible."""
    command = argparse.ArgumentParser(
        prog="python -m app export",
        description="Write the page as a folder of static files, with recorded runs and measured figures in it. Any "
        "file server shows it, under any path.",
        allow_abbrev=False,
    )
    command.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="a new or empty folder")
    command.add_argument("--runs", type=Path, metavar="FOLDER", help="the measured runs (default: assets/runs)")
    options = command.parse_args(arguments)
    if options.output.exists() and any(options.output.iterdir()):
        sys.stderr.write(f"app export: {options.output} is not empty; name a new folder.\n")
        return 2
    serving.prepare()
    for name, content in files(options.runs).items():
        path = options.output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return 0


def files(runs: Path | None = None) -> dict[str, bytes]:
    """Every file of the folder by its path; `runs` is the folder of measured runs (None: that of the repository)."""
    from app.export import records, shell  # late: they import Gradio, which reads the environment

    found = {
        "index.html": shell.page().encode(),
        "lens.js": bundle.script("shell/shell.js").encode(),
        "lens.css": bundle.styles("shell/shell.css").encode(),
        "plotly.js": plotly_script.script().encode(),
        **{f"fonts/{name}": content for name, content in _fonts()},
    }
    found |= {f"data/{name}.z": zlib.compress(text.encode(), 9) for name, text in records.files(runs).items()}
    return {**found, "worker.js": _worker(found)}


def _fonts() -> list[tuple[str, bytes]]:
    """The fonts of the app, which come with Gradio."""
    import gradio

    folder = Path(gradio.__file__).parent / "templates" / "frontend" / "static" / "fonts"
    paths = [folder / f"{name}-{weight}.woff2" for name in FONTS for weight in WEIGHTS]
    return [(path.name, path.read_bytes()) for path in paths]


def _worker(found: dict[str, bytes]) -> bytes:
    """The script that keeps these files in the browser, under a name of their content."""
    content = hashlib.sha256(b"".join(hashlib.sha256(found[name]).digest() for name in sorted(found))).hexdigest()
    kept = json.dumps({"version": content[:16], "files": ["./", *sorted(found)]})
    return f"self.lensKept = {kept};\n{bundle.script('shell/worker.js')}".encode()
