"""`python -m app export`: write the page as static files."""

import argparse
import hashlib
import json
import shutil
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

from analysis import plotly_script
from app.browser import bundle
from app.server import serving
from mars.checkpoint.sources import NAMED_BASES

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
            from app.runs.run import read
            from mars_site import page  # late, as below

            options.output.write_text(page.single(read(options.run.read_bytes())), encoding="utf-8")
            return 0
        if options.output.is_file() or (options.output.exists() and any(options.output.iterdir())):
            raise ValueError(f"{options.output} is not empty; name a new folder.")
        if options.space:
            write_space(options.output)
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
    import gradio  # late: it reads the environment

    from mars_site import live, page, records

    folder = Path(gradio.__file__).parent / "templates" / "frontend" / "static" / "fonts"
    fonts = [folder / f"{name}-{weight}.woff2" for name in FONTS for weight in WEIGHTS]
    models, about = ({}, None) if pairs is None else live.files(pairs or _all_pairs())
    found = {
        "index.html": page.page(about).encode(),
        "lens.js": bundle.script("mars_site/browser/shell.js").encode(),
        "lens.css": bundle.styles("mars_site/browser/site.css").encode(),
        "plotly.js": plotly_script.script().encode(),
        **{f"fonts/{path.name}": path.read_bytes() for path in fonts},
    }
    if DOCKER.is_file():  # an installed package has no docs
        found["README.md"] = readme(STATIC).encode()
    found |= {f"data/{name}.z": zlib.compress(text.encode(), 9) for name, text in records.files().items()}
    found |= {name: content for name, content in models.items() if name.endswith(".js")}
    return {**found, **models, "worker.js": _worker(found)}


def _all_pairs() -> list[str]:
    from app.models.pairs import real_missing

    missing = real_missing()
    if missing:
        sys.stderr.write(f"app export: without SmolLM2: {missing}\n")
    return [key for key in PAIRS if key == "tiny" or not missing]


def _worker(found: dict[str, bytes]) -> bytes:
    """The script that keeps these files in the browser, under a name of their content."""
    content = hashlib.sha256(b"".join(hashlib.sha256(found[name]).digest() for name in sorted(found))).hexdigest()
    kept = json.dumps({"version": content[:16], "files": ["./", *sorted(found)]})
    return f"self.lensKept = {kept};\n{bundle.script('mars_site/browser/worker.js')}".encode()


ROOT = Path(__file__).parents[1]
DOCKER = ROOT / "docs" / "spaces" / "README.md"
STATIC = "sdk: static\napp_file: index.html\ncustom_headers:\n  cross-origin-opener-policy: same-origin\n"
"""What says that a Space is static, and the header of the app that a static Space may set."""
_ZERO = 'sdk: gradio\nsdk_version: {gradio}\npython_version: "3.12"\napp_file: app.py\nsuggested_hardware: zero-a10g\n'
_TORCH = "2.11.0"
"""The newest that ZeroGPU has; docs/gpu.md was measured with it."""
_CODE = ("mars", "mars_tasks", "mars_kernels", "analysis", "app", "mars_site", "assets", "LICENSE")
_APP = '''"""The app on ZeroGPU, where this file is run; written by `python -m app export --space zerogpu`."""

from app.server import serving

serving.prepare()  # before Gradio, which `spaces` imports
import spaces  # noqa: E402, F401 - before torch

from app.__main__ import main  # noqa: E402

main(["--host", "0.0.0.0", "--device", "cpu"])  # the GPU is another process's (mars_site/zerogpu.py)
'''


def readme(sdk: str) -> str:
    """The README.md of a Space with this SDK, from that of the Docker Space: its own words, and nothing to build."""
    header, words = DOCKER.read_text(encoding="utf-8").removeprefix("---\n").split("---\n", 1)
    kept = [line for line in header.splitlines(keepends=True) if not line.startswith(("sdk:", "app_port:"))]
    return f"---\n{''.join(kept)}{sdk}---\n{words.partition('<!--')[0].rstrip()}\n"


def write_space(output: Path) -> None:
    """Write the folder of a Space on ZeroGPU: the app, its packages, and the base models that are installed here."""
    if not DOCKER.is_file():
        raise ValueError("a Space is made from a clone of the repository, not from an installed package")
    packages = (ROOT / "requirements.txt").read_text(encoding="utf-8").partition("\n# tests and checks")[0].split("\n")
    pinned = dict(line.split("==") for line in packages if "==" in line)
    pinned["torch"] = _TORCH
    gradio = pinned.pop("gradio")  # which the SDK installs
    output.mkdir(parents=True, exist_ok=True)
    requirements = "".join(f"{name}=={version}\n" for name, version in pinned.items())
    for name, text in (
        ("README.md", readme(_ZERO.format(gradio=gradio))),
        ("app.py", _APP),
        ("requirements.txt", requirements),
    ):
        (output / name).write_text(text, encoding="utf-8")
    bases = [(file.parent, base.module) for base in NAMED_BASES.values() if (file := base.file())]
    docs = [(path, f"docs/{path.name}") for path in (ROOT / "docs").glob("*.md")]
    for source, name in (*((ROOT / name, name) for name in _CODE), *docs, *bases):
        target = output / name
        target.parent.mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
