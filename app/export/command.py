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
SPACE = Path(__file__).parents[2] / "docs" / "spaces" / "README.md"
STATIC = "sdk: static\napp_file: index.html\ncustom_headers:\n  cross-origin-opener-policy: same-origin\n"
"""What says that a Space is static, and the header of the app that a static Space may set."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the folder; 0, or 2 if that is not possible."""
    command = argparse.ArgumentParser(
        prog="python -m app export",
        description="Write the page as a folder of static files, with recorded runs and measured figures in it. Any "
        "file server shows it, under any path.",
        allow_abbrev=False,
    )
    command.add_argument(
        "--output", type=Path, required=True, metavar="PATH", help="a new folder, or the file of --run"
    )
    command.add_argument(
        "--run", type=Path, metavar="RUN.json", help="write one file with this saved run alone, which opens anywhere"
    )
    command.add_argument("--runs", type=Path, metavar="FOLDER", help="the measured runs (default: assets/runs)")
    command.add_argument(
        "--live", action="store_true", help="the tiny pair writes in the visitor's own browser; needs npm and onnx"
    )
    options = command.parse_args(arguments)
    serving.prepare()
    try:
        if options.run:
            _write_single(options.run, options.output)
        else:
            _write_folder(options.output, options.runs, options.live)
    except (ImportError, OSError, ValueError) as error:
        sys.stderr.write(f"app export: {error}\n")
        return 2
    return 0


def _write_single(run: Path, output: Path) -> None:
    from app.export import shell  # late, as below
    from app.runs.run import read

    output.write_text(shell.single(read(run.read_bytes())), encoding="utf-8")


def _write_folder(output: Path, runs: Path | None, live: bool) -> None:
    if output.exists() and any(output.iterdir()):
        raise ValueError(f"{output} is not empty; name a new folder.")
    for name, content in files(runs, live).items():
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def files(runs: Path | None = None, writes: bool = False) -> dict[str, bytes]:
    """Every file of the folder by its path; `runs` is the folder of measured runs (None: that of the repository).

    If it `writes`, the tiny pair is among them.
    """
    from app.export import live, records, shell  # late: they import Gradio, which reads the environment

    models, about = live.files() if writes else ({}, None)
    found = {
        "index.html": shell.page(about).encode(),
        "lens.js": bundle.script("shell/shell.js").encode(),
        "lens.css": bundle.styles("shell/site.css").encode(),
        "plotly.js": plotly_script.script().encode(),
        **{f"fonts/{name}": content for name, content in _fonts()},
    }
    if SPACE.is_file():  # an installed package has no docs
        found["README.md"] = space(SPACE.read_text(encoding="utf-8")).encode()
    found |= {f"data/{name}.z": zlib.compress(text.encode(), 9) for name, text in records.files(runs).items()}
    found |= {name: content for name, content in models.items() if name.endswith(".js")}
    return {**found, **models, "worker.js": _worker(found)}


def space(docker: str) -> str:
    """The README.md of a static Space, from that of the Space with a server: its own words, and nothing to build."""
    header, words = docker.removeprefix("---\n").split("---\n", 1)
    kept = [line for line in header.splitlines(keepends=True) if not line.startswith(("sdk:", "app_port:"))]
    return f"---\n{''.join(kept)}{STATIC}---\n{words.partition('<!--')[0].rstrip()}\n"


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
