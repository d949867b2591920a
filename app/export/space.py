"""Hugging Face Spaces: the README.md that says how one runs, and the folder of one on ZeroGPU."""

import shutil
from pathlib import Path

from mars.checkpoint.sources import NAMED_BASES

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docs" / "spaces" / "README.md"
STATIC = "sdk: static\napp_file: index.html\ncustom_headers:\n  cross-origin-opener-policy: same-origin\n"
"""What says that a Space is static, and the header of the app that a static Space may set."""
_ZERO = 'sdk: gradio\nsdk_version: {gradio}\npython_version: "3.12"\napp_file: app.py\nsuggested_hardware: zero-a10g\n'
_TORCH = "2.11.0"
"""The newest that ZeroGPU has; docs/gpu.md was measured with it."""
_CODE = ("mars", "mars_tasks", "mars_kernels", "analysis", "app", "assets", "LICENSE")
_APP = '''"""The app on ZeroGPU, where this file is run; written by `python -m app export --space zerogpu`."""

from app.server import serving

serving.prepare()  # before Gradio, which `spaces` imports
import spaces  # noqa: E402, F401 - before torch

from app.__main__ import main  # noqa: E402

main(["--host", "0.0.0.0", "--device", "cpu"])  # the GPU is another process's (app/compare/zerogpu.py)
'''


def readme(sdk: str) -> str:
    """The README.md of a Space with this SDK, from that of the Docker Space: its own words, and nothing to build."""
    header, words = DOCKER.read_text(encoding="utf-8").removeprefix("---\n").split("---\n", 1)
    kept = [line for line in header.splitlines(keepends=True) if not line.startswith(("sdk:", "app_port:"))]
    return f"---\n{''.join(kept)}{sdk}---\n{words.partition('<!--')[0].rstrip()}\n"


def write(output: Path) -> None:
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
