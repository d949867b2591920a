"""`python -m app export`: write the page as static files."""

import argparse
import hashlib
import json
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

from analysis import plotly_script
from app.browser import bundle
from app.export import space
from app.server import serving

FONTS = ("IBMPlexSans/IBMPlexSans", "IBMPlexMono/IBMPlexMono")
WEIGHTS = ("Regular", "Bold")
PAIRS = ("tiny", "smollm2")


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
    command.add_argument(
        "--live",
        nargs="*",
        choices=PAIRS,
        help="these pairs write in the visitor's own browser; needs npm and onnx (default: all that can be had here)",
    )
    command.add_argument(
        "--space", choices=["zerogpu"], help="write a Space whose visitors get a GPU for each run, with the whole app"
    )
    options = command.parse_args(arguments)
    serving.prepare()
    try:
        if options.run:
            from app.export import shell  # late, as below
            from app.runs.run import read

            options.output.write_text(shell.single(read(options.run.read_bytes())), encoding="utf-8")
            return 0
        if options.output.exists() and any(options.output.iterdir()):
            raise ValueError(f"{options.output} is not empty; name a new folder.")
        if options.space:
            space.write(options.output)
        else:
            for name, content in files(options.live).items():
                path = options.output / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
    except (ImportError, OSError, ValueError) as error:
        sys.stderr.write(f"app export: {error}\n")
        return 2
    return 0


def files(pairs: Sequence[str] | None = None) -> dict[str, bytes]:
    """Every file of the folder by its path. With `pairs`, their models too; none named are all that can be had here."""
    from app.export import live, records, shell  # late: they import Gradio, which reads the environment

    models, about = ({}, None) if pairs is None else live.files(pairs or _all_pairs())
    found = {
        "index.html": shell.page(about).encode(),
        "lens.js": bundle.script("shell/shell.js").encode(),
        "lens.css": bundle.styles("shell/site.css").encode(),
        "plotly.js": plotly_script.script().encode(),
        **{f"fonts/{name}": content for name, content in _fonts()},
    }
    if space.DOCKER.is_file():  # an installed package has no docs
        found["README.md"] = space.readme(space.STATIC).encode()
    found |= {f"data/{name}.z": zlib.compress(text.encode(), 9) for name, text in records.files().items()}
    found |= {name: content for name, content in models.items() if name.endswith(".js")}
    return {**found, **models, "worker.js": _worker(found)}


def _all_pairs() -> list[str]:
    from app.models.pairs import real_missing

    missing = real_missing()
    if missing:
        sys.stderr.write(f"app export: without SmolLM2: {missing}\n")
    return [key for key in PAIRS if key == "tiny" or not missing]


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
