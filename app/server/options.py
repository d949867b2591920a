"""The command line of `python -m app`, checked before anything is loaded."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from app.limits import MOST_TOKENS, Limits
from app.models import KEPT, NAME, SHIPPED, offered
from app.server.accounts import read_accounts
from app.server.serving import Site

_ROOT_PATH = re.compile(r"(/[\w.~-]+)+")
_ORIGIN = re.compile(r"https?://(\*\.)?[A-Za-z0-9.-]+(:\d{1,5})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the page is served. `sources` are the checkpoints by name, `choice` the name that each lane starts with."""

    sources: dict[str, str]
    choice: dict[str, str]
    device: str
    threads: int | None
    places: int
    queue_size: int
    keep: int
    limits: Limits
    site: Site


def read(arguments: Sequence[str] | None = None) -> Options:
    """The options of a command line; leaves with exit status 2 and one sentence where something is wrong."""
    command = parser()
    given = command.parse_args(arguments)
    try:
        sources, choice = _checkpoints(given.checkpoint, {"ar": given.ar, "mars": given.mars})
        accounts = read_accounts(given.auth, given.auth_file)
    except ValueError as error:
        command.error(str(error))
    if given.mcp and find_spec("mcp") is None:
        command.error("--mcp needs a package that is not installed: pip install 'gradio[mcp]'")
    return Options(
        sources=sources,
        choice=choice,
        device=given.device,
        threads=given.threads,
        places=given.places,
        queue_size=given.queue_size,
        keep=given.keep,
        limits=Limits(new_tokens=given.max_new_tokens_limit),
        site=Site(
            host=given.host,
            port=given.port,
            root_path=given.root_path,
            frame_ancestors=tuple(given.frame_ancestor),
            accounts=accounts,
            mcp=given.mcp,
        ),
    )


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command = argparse.ArgumentParser(
        prog="python -m app",
        description="MARS Lens: an AR and a MARS checkpoint write side by side, every forward pass visible.",
    )
    _add_checkpoints(command)
    _add_address(command)
    _add_limits(command)
    return command


def _add_checkpoints(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    where = "folder, Hub id, or a NAME given with --checkpoint"
    add("--ar", default=str(SHIPPED / "ar-sft"), metavar="DIR_OR_ID", help=f"the AR lane's checkpoint: {where}")
    add("--mars", default=str(SHIPPED / "mars-b8"), metavar="DIR_OR_ID", help=f"the MARS lane's checkpoint: {where}")
    add(
        "--checkpoint",
        action="append",
        default=[],
        type=_named_checkpoint,
        metavar="NAME=DIR_OR_ID",
        help="another checkpoint to choose from, loaded when it is first used; may be given again",
    )
    add(
        "--keep",
        type=_whole(2, 64),
        default=KEPT,
        metavar="N",
        help="most checkpoints that stay loaded; the one unused for longest goes first, those of --ar and --mars never "
        f"(default: {KEPT})",
    )
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where the models run")
    add(
        "--threads",
        type=_whole(1, 1024),
        metavar="N",
        help="CPU threads of a forward pass (default: one core stays free for the page and its server)",
    )


def _add_address(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--port", type=_port, help="port to serve on (default: the first free one from 7860)")
    add("--host", default="127.0.0.1", help="address to bind to (default: this machine only)")
    add(
        "--root-path",
        type=_root_path,
        default="",
        metavar="PATH_OR_URL",
        help="where a proxy shows the page, such as /lens or https://example.org/lens",
    )
    add(
        "--frame-ancestor",
        action="append",
        default=[],
        type=_origin,
        metavar="ORIGIN",
        help="a site that may show the page in a frame, such as https://huggingface.co; may be given again",
    )
    add("--auth", action="append", default=[], metavar="USER:PASSWORD", help="who may log in; may be given again")
    add("--auth-file", type=Path, metavar="FILE", help="lines USER:PASSWORD, which a list of processes does not show")
    add("--mcp", action="store_true", help="offer the public API to MCP clients as well (needs gradio[mcp])")


def _add_limits(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--places", type=_whole(1, 64), default=4, metavar="N", help="runs at once; the others wait (default: 4)")
    add(
        "--queue-size",
        type=_whole(0, 1000),
        default=40,
        metavar="N",
        help="most runs that wait; more are turned away (default: 40)",
    )
    add(
        "--max-new-tokens-limit",
        type=_whole(16, 32768),
        default=MOST_TOKENS,
        metavar="N",
        help=f"the longest answer that can be asked for (default: {MOST_TOKENS})",
    )


def _checkpoints(named: Sequence[tuple[str, str]], lanes: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    given: dict[str, str] = {}
    for name, source in named:
        if name in given:
            raise ValueError(f"--checkpoint {name} is given twice; each checkpoint needs a name of its own")
        given[name] = source
    sources = offered(given, *(source for source in lanes.values() if source not in given))
    by_source = {source: name for name, source in reversed(sources.items())}
    return sources, {lane: source if source in given else by_source[source] for lane, source in lanes.items()}


def _named_checkpoint(text: str) -> tuple[str, str]:
    name, equals, source = text.partition("=")
    if not equals or not source.strip() or not NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(
            "must be NAME=DIR_OR_ID, the name 1 to 48 letters, digits, dots, hyphens or underscores that begins with a "
            f"letter or digit, got {text!r}"
        )
    return name, source.strip()


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"port must be a number between 1 and 65535, got {text!r}")
    return int(text)


def _whole(lowest: int, highest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and lowest <= int(text) <= highest):
            raise argparse.ArgumentTypeError(f"must be a whole number from {lowest} to {highest}, got {text!r}")
        return int(text)

    return parse


def _root_path(text: str) -> str:
    path = text.rstrip("/")
    parts = urlsplit(path)
    if parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment:
        path = parts.path
        if not path or _ROOT_PATH.fullmatch(path):
            return text.rstrip("/")
    elif not path or _ROOT_PATH.fullmatch(path):
        return path
    raise argparse.ArgumentTypeError(f"must be a path such as /lens or a whole address, got {text!r}")


def _origin(text: str) -> str:
    if not _ORIGIN.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"must be an origin such as https://huggingface.co or https://*.hf.space, got {text!r}"
        )
    return text
