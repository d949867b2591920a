"""`python -m app`: load the two checkpoints and serve the page on this machine."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from app.device import Device
from app.models import SHIPPED, Models, offered

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint


def load(source: str, device: str) -> Checkpoint:
    """Load a checkpoint; imported late, because the page can be built while torch is read."""
    from mars.checkpoint import load_checkpoint

    return load_checkpoint(source, device=device)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command = argparse.ArgumentParser(
        prog="python -m app",
        description="MARS Lens: an AR and a MARS checkpoint write side by side, every forward pass visible.",
    )
    command.add_argument("--port", type=int, help="port to serve on (default: the first free one from 7860)")
    command.add_argument("--host", default="127.0.0.1", help="address to bind to (default: this machine only)")
    command.add_argument("--ar", default=str(SHIPPED / "ar-sft"), help="folder or Hub id of the AR checkpoint")
    command.add_argument("--mars", default=str(SHIPPED / "mars-b8"), help="folder or Hub id of the MARS checkpoint")
    command.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where the models run")
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted; the exit status."""
    options = parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    sources = offered(options.ar, options.mars)
    names = {source: name for name, source in sources.items()}
    choice = {"ar": names[options.ar], "mars": names[options.mars]}
    models = Models(sources, partial(load, device=options.device))
    for name in choice.values():
        models.request(name)
    return _serve(models, choice, options)


def _serve(models: Models, choice: dict[str, str], options: argparse.Namespace) -> int:
    from app import page
    from app.runner import Runner
    from app.sessions import Sessions

    blocks = page.build(Runner(models, Device(), Sessions()), choice)
    try:
        _, url, _ = blocks.launch(**page.serving(options.host, options.port), prevent_thread_lock=True)
    except OSError as error:
        sys.stderr.write(f"The page cannot be served on {options.host}: {error}. Choose another --port.\n")
        return 1
    sys.stdout.write(f"MARS Lens is at {url}\n")
    sys.stdout.flush()
    blocks.block_thread()
    return 0


if __name__ == "__main__":
    sys.exit(main())
