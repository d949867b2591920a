"""`python -m app`: load the two checkpoints and serve the page on this machine."""

from __future__ import annotations

import argparse
import logging
import os
import socket
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from app.device import Device
from app.models import SHIPPED, Models, offered

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint

WARM_UP_TOKENS = 8


def load(source: str, device: str) -> Checkpoint:
    """Load a checkpoint and let it decode once, so that no lane pays for first calls; torch is read only here."""
    from mars.checkpoint import load_checkpoint
    from mars.config import DecodingSettings
    from mars.decoding import DECODERS

    checkpoint = load_checkpoint(source, device=device)
    settings = DecodingSettings(block_size=checkpoint.block_size or 1, max_new_tokens=WARM_UP_TOKENS)
    for name in ("autoregressive", "sliding_window") if checkpoint.supports_masks else ("autoregressive",):
        for _ in DECODERS[name](checkpoint.engine, [checkpoint.encode("Hello")], settings):
            pass
    return checkpoint


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command = argparse.ArgumentParser(
        prog="python -m app",
        description="MARS Lens: an AR and a MARS checkpoint write side by side, every forward pass visible.",
    )
    command.add_argument("--port", type=_port, help="port to serve on (default: the first free one from 7860)")
    command.add_argument("--host", default="127.0.0.1", help="address to bind to (default: this machine only)")
    command.add_argument("--ar", default=str(SHIPPED / "ar-sft"), help="folder or Hub id of the AR checkpoint")
    command.add_argument("--mars", default=str(SHIPPED / "mars-b8"), help="folder or Hub id of the MARS checkpoint")
    command.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where the models run")
    return command


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"port must be a number between 1 and 65535, got {text!r}")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted; the exit status."""
    options = parser().parse_args(arguments)
    if not _can_serve(options.host, options.port):
        place = f"{options.host}, port {options.port}" if options.port else options.host
        sys.stderr.write(f"The page cannot be served on {place}: taken or not allowed. Choose another --port.\n")
        return 1
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    os.environ.update(GRADIO_ANALYTICS_ENABLED="False", HF_HUB_DISABLE_TELEMETRY="1")
    sources = offered(options.ar, options.mars)
    names = {source: name for name, source in sources.items()}
    choice = {"ar": names[options.ar], "mars": names[options.mars]}
    return _serve(Models(sources, partial(load, device=options.device)), choice, options)


def _can_serve(host: str, port: int | None) -> bool:
    """Whether the address can be bound: asked first, because everything after it takes seconds."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port or 0))
    except OSError:
        return False
    return True


def _serve(models: Models, choice: dict[str, str], options: argparse.Namespace) -> int:
    from app import page
    from app.runner import Runner
    from app.sessions import Sessions

    blocks = page.build(Runner(models, Device(), Sessions()), choice)
    _, url, _ = blocks.launch(**page.serving(options.host, options.port), prevent_thread_lock=True)
    for name in choice.values():  # only now: libraries that two threads import at once can come out half made
        models.request(name)
    sys.stdout.write(f"MARS Lens is at {url}\n")
    sys.stdout.flush()
    blocks.block_thread()
    return 0


if __name__ == "__main__":
    sys.exit(main())
