"""`python -m mars.serve`: load a checkpoint and answer requests in OpenAI's form until told to end."""

from __future__ import annotations

import argparse
import logging
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mars.config import DEFAULT_THRESHOLD, MAX_BLOCK_SIZE
from mars.garbage import gc_frozen
from mars.options import SOURCES, add_base_options, add_device_options, parse_host, parse_threshold, whole
from mars.serve import PLACES, QUEUE, RequestLimits

BAD_INPUT, CANNOT_SERVE, INTERRUPTED = 2, 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted; the exit status: 1 for a taken address, 2 for bad input, 130 before it serves."""
    options = parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        if options.ray is None:
            return _serve(options)
        from mars.serve.application import deploy

        _say(options.name or options.checkpoint, deploy(options, _keys(options)))
        return 0
    except ValueError as error:
        sys.stderr.write(f"mars.serve: {error}\n")
        return BAD_INPUT
    except KeyboardInterrupt:  # while it loads
        return INTERRUPTED


def _serve(options: argparse.Namespace) -> int:
    try:
        listening = bind(options.host, options.port)
    except OSError as error:
        sys.stderr.write(f"mars.serve: {options.host}, port {options.port} cannot be used: {error.strerror}\n")
        return CANNOT_SERVE
    import uvicorn

    from mars.serve.application import application
    from mars.serve.guard import protocol

    with listening:
        with gc_frozen():
            app, limits = application(options, _keys(options))
        config = uvicorn.Config(
            app,
            http=protocol(limits),
            ws="none",
            log_level="error",  # warnings are about requests that offer another protocol, as Java's clients do
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=options.grace,
        )
        host, port = listening.getsockname()[:2]
        _say(app.state.served.name, f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
        with suppress(KeyboardInterrupt):  # which uvicorn raises once more when it has shut down
            uvicorn.Server(config).run(sockets=[listening])
    return 0


def _keys(options: argparse.Namespace) -> frozenset[bytes] | None:
    from mars.serve.guard import read_keys

    return None if options.api_keys is None else read_keys(options.api_keys)


def _say(name: str, address: str) -> None:
    print(f"{name} is at {address}/v1", flush=True)


def _origin(text: str) -> str:
    """An origin as browsers write it ("null" of a file), or "*"."""
    if text not in ("*", "null") and "://" not in text:
        raise argparse.ArgumentTypeError(f"must be an origin such as http://localhost:3000, or *, got {text!r}")
    return text.lower().rstrip("/")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command = argparse.ArgumentParser(
        prog="python -m mars.serve",
        description="Answer requests in OpenAI's form: requests share each forward pass. See docs/serving.md.",
        allow_abbrev=False,
    )
    add = command.add_argument
    add("--checkpoint", required=True, metavar="SOURCE", help=f"{SOURCES}, or the folder of an adapter")
    add("--name", help="what requests call it (default: the checkpoint's own name)")
    add_base_options(command)
    add_device_options(command)
    add("--threads", type=whole(1, 1024), metavar="N", help="CPU threads of a forward pass")
    add("--decoder", metavar="NAME", help="for requests that name none (default: exact decoding, else autoregressive)")
    add(
        "--threshold",
        type=parse_threshold,
        default=DEFAULT_THRESHOLD,
        metavar="T",
        help=f"τ for requests that name none, or none for one-token mode (default: {DEFAULT_THRESHOLD})",
    )
    add(
        "--block-size", type=whole(1, MAX_BLOCK_SIZE), metavar="B", help="tokens proposed per pass (as trained, else 8)"
    )
    add(
        "--thresholds",
        type=_thresholds,
        default=(),
        metavar="T,T,…",
        help="values of τ, descending, for requests that leave it open: one after the other while others wait, and "
        "back (default: exact decoding, whose texts never change)",
    )
    add("--ray", metavar="ADDRESS", help="deploy on the Ray cluster at this address, such as auto, and return")
    add("--replicas", type=whole(1, 10_000), default=1, metavar="N", help="most replicas there (default: 1)")
    add("--min-replicas", type=whole(1, 10_000), default=1, metavar="N", help="replicas while idle (default: 1)")
    _add_limits(command)
    return command


def _add_limits(command: argparse.ArgumentParser) -> None:
    add, usual = command.add_argument, RequestLimits()

    def limit(name: str, lowest: int, highest: int, default: int, about: str) -> None:
        add(name, type=whole(lowest, highest), default=default, metavar="N", help=f"{about} (default: {default:n})")

    add("--host", default="127.0.0.1", help="address to bind to (default: this machine only)")
    add("--port", type=whole(0, 65535), default=8000, help="port to serve on (default: 8000)")
    add("--api-keys", type=Path, metavar="FILE", help="one key a line; without it no key is asked for")
    named = ("another name by which it may be called, where no key is asked for", "pages that may ask it, * for all")
    for name, metavar, read, about in (
        ("--allowed-host", "NAME", parse_host, named[0]),
        ("--allow-origin", "ORIGIN", _origin, named[1]),
    ):
        add(name, action="append", default=[], type=read, metavar=metavar, help=f"{about} (may be given several times)")
    limit("--places", 1, 256, PLACES, "requests decoded at once")
    limit("--queue-size", 0, 10_000, QUEUE, "requests that wait")
    limit("--connections", 1, 10_000, usual.connections, "requests at once")
    add("--context", type=whole(16, 1_000_000), metavar="N", help="tokens of prompt and answer (default: up to 4096)")
    limit("--max-new-tokens-limit", 1, 1_000_000, usual.new_tokens, "longest answer")
    add("--grace", type=whole(0, 86_400), metavar="S", help="for running requests at the end (default: no limit)")


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens at this address: asked first, because loading takes seconds; who connects meanwhile waits.

    OSError where the address is taken, also by a server that still loads, or not allowed.
    """
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()
    except OSError:
        listening.close()
        raise
    return listening


def _thresholds(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be numbers with commas between them, got {text!r}") from None


if __name__ == "__main__":
    sys.exit(main())
