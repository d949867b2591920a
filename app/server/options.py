"""The command line of `python -m app`, checked before anything is loaded."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from app.models import pairs
from app.models.manager import KEPT, NAME, SHIPPED, offered
from app.models.pairs import TINY_SOURCES, Pair
from app.runs.stored import DAYS, MOST_DAYS
from app.scheduling import MOST_TOKENS, Limits
from mars.checkpoint.sources import NAMED_BASES, unavailable
from mars.lines import read_lines
from mars.options import SOURCES, add_base_options, add_device_options, whole

if TYPE_CHECKING:
    from mars.serve.guard import Keys


def _matching(pattern: str, allowed: str) -> Callable[[str], str]:
    """A type for argparse: text that matches the whole pattern, called `allowed` in the refusal."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(f"must be {allowed}, got {text!r}")
        return text

    return check


_PORT = whole(1, 65535)
_ROOT_PATH = _matching(r"(https?://[\w.:-]+)?((/[\w.~-]+)*)/?", "a path such as /lens or a whole address")
_HOST_NAME = _matching(
    r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", "a name such as lens.example.org, without a port"
)
_ORIGIN = _matching(
    r"https?://(\*\.)?[A-Za-z0-9.-]+(:\d{1,5})?", "an origin such as https://huggingface.co or https://*.hf.space"
)
_ENGINE = _matching(r"https?://[^\s/@?#]{1,253}(/[^\s?#]*)?", "an address such as http://host:8000")
_NAMED = _matching(
    rf"{NAME.pattern}=\s*\S.*",
    "NAME=SOURCE, the name 1 to 48 letters, digits, dots, hyphens or underscores that begins with a letter or digit",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The address of the page, and its users: pairs of a name and a password.

    `root_path` is where a proxy shows it, a path or a whole address; `proxies` are the addresses of proxies whose
    `X-Forwarded-For` is believed. `allowed_hosts` are further names at which browsers find the page. With `openai`
    there is an endpoint for OpenAI's clients; `keys` are its keys (None: it asks for none).
    """

    host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    port: int | None = None
    root_path: str = ""
    frame_ancestors: tuple[str, ...] = ()
    accounts: tuple[tuple[str, str], ...] = ()
    proxies: tuple[str, ...] = ()
    mcp: bool = False
    openai: bool = False
    keys: Keys | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options, checked. `sources` are the checkpoints by name, `choice` is the checkpoint of each lane at the start.

    `pairs` are those that the page offers, the first at the start; `note` says why the first is not the usual one.
    `keep_shared` is the folder for runs that visitors share, each kept for `shared_days`; None: sharing is off.
    """

    sources: dict[str, str]
    choice: dict[str, str]
    pairs: tuple[Pair, ...]
    note: str
    base: str | None
    allow_other_base: bool
    device: str
    threads: int | None
    places: int
    queue_size: int
    keep: int
    limits: Limits
    keep_shared: Path | None
    shared_days: int
    site: Site


def read(arguments: Sequence[str] | None = None) -> Options:
    """The options of a command line; leaves with exit status 2 and one sentence where something is wrong."""
    command = parser()
    given = command.parse_args(arguments)
    try:
        _use_engine(given)
        named = _by_name(given.checkpoint)
        lanes, note = _start(named, {"ar": given.ar, "mars": given.mars})
        sources, choice = _checkpoints(named, lanes)
        accounts = _accounts(given.auth, given.auth_file)
        folder = _folder(given.keep_shared)
        keys = _keys(given.api_keys, openai=given.openai, accounts=bool(accounts))
    except ValueError as error:
        command.error(str(error))
    if given.mcp and find_spec("mcp") is None:
        command.error("--mcp needs a package that is not installed: pip install 'gradio[mcp]'")
    as_given = ("base", "allow_other_base", "device", "threads", "places", "queue_size", "keep", "shared_days")
    return Options(
        sources=sources,
        choice=choice,
        pairs=_pairs(sources, choice, named=bool(given.ar or given.mars)),
        note=note,
        limits=Limits(new_tokens=given.max_new_tokens_limit),
        keep_shared=folder,
        site=Site(
            allowed_hosts=tuple(map(str.lower, given.allowed_host)),
            root_path=given.root_path.rstrip("/"),
            frame_ancestors=tuple(given.frame_ancestor),
            accounts=accounts,
            proxies=tuple(given.trusted_proxy),
            keys=keys,
            **{name: getattr(given, name) for name in ("host", "port", "mcp", "openai")},
        ),
        **{name: getattr(given, name) for name in as_given},
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
    where = f"{SOURCES}, the folder of an adapter, or a NAME given with --checkpoint"
    add("--ar", type=_source, metavar="SOURCE", help=f"the AR lane's checkpoint: {where}")
    add("--mars", type=_source, metavar="SOURCE", help=f"the MARS lane's checkpoint: {where}")
    add(
        "--engine",
        type=_ENGINE,
        metavar="URL",
        help="both lanes write with the model that python -m mars.serve serves there; such a URL is a SOURCE as well",
    )
    add_base_options(command)
    add(
        "--checkpoint",
        action="append",
        default=[],
        type=_NAMED,
        metavar="NAME=SOURCE",
        help="another checkpoint to choose from, loaded when it is first used; may be given again",
    )
    add(
        "--keep",
        type=whole(2, 64),
        default=KEPT,
        metavar="N",
        help="most checkpoints that stay loaded; the one unused for longest goes first, those of --ar and --mars never "
        f"(default: {KEPT})",
    )
    add_device_options(command, dtype=False)
    add(
        "--threads",
        type=whole(1, 1024),
        metavar="N",
        help="CPU threads of a forward pass (default: one core stays free for the page and its server)",
    )


def _use_engine(given: argparse.Namespace) -> None:
    """Let `--engine` stand for `--ar` and `--mars`."""
    if given.engine is None:
        return
    if given.ar or given.mars:
        raise ValueError("--engine is for both lanes: leave --ar and --mars away, or give one of them the URL")
    given.ar = given.mars = given.engine.rstrip("/").removesuffix("/v1")


def _add_address(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--port", type=_PORT, help="port to serve on (default: the first free one from 7860)")
    add("--host", default="127.0.0.1", help="address to bind to (default: this machine only)")
    add(
        "--allowed-host",
        action="append",
        default=[],
        type=_HOST_NAME,
        metavar="NAME",
        help="a name at which browsers find the page, such as lens.example.org or *.app.github.dev, where a proxy or a "
        "forwarded port shows it; may be given again",
    )
    add(
        "--root-path",
        type=_ROOT_PATH,
        default="",
        metavar="PATH_OR_URL",
        help="where a proxy shows the page, such as /lens or https://example.org/lens",
    )
    add(
        "--trusted-proxy",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="the IP address of a proxy whose X-Forwarded-For is believed (default: nobody's); may be given again",
    )
    add(
        "--frame-ancestor",
        action="append",
        default=[],
        type=_ORIGIN,
        metavar="ORIGIN",
        help="a site that may show the page in a frame, such as https://huggingface.co; may be given again",
    )
    add("--auth", action="append", default=[], metavar="USER:PASSWORD", help="an account; may be given again")
    add("--auth-file", type=Path, metavar="FILE", help="accounts, one USER:PASSWORD a line; safer than --auth")
    add("--openai", action="store_true", help="answer OpenAI's clients at /v1 as well (docs/serving.md)")
    add("--api-keys", type=Path, metavar="FILE", help="keys for those clients, one a line; needed with accounts")
    add("--mcp", action="store_true", help="offer the public API to MCP clients as well (needs gradio[mcp])")


def _add_limits(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--places", type=whole(1, 64), default=4, metavar="N", help="runs at once; the others wait (default: 4)")
    add(
        "--queue-size",
        type=whole(0, 1000),
        default=40,
        metavar="N",
        help="most runs that wait; more are turned away (default: 40)",
    )
    add(
        "--max-new-tokens-limit",
        type=whole(16, 32768),
        default=MOST_TOKENS,
        metavar="N",
        help=f"the longest answer that can be asked for (default: {MOST_TOKENS})",
    )
    add(
        "--keep-shared",
        type=Path,
        metavar="FOLDER",
        help="let visitors save a run here, for a link that opens it elsewhere; at most 100 MB (default: they cannot)",
    )
    add(
        "--shared-days",
        type=whole(1, MOST_DAYS),
        default=DAYS,
        metavar="N",
        help=f"days after which a saved run is deleted (default: {DAYS})",
    )


def _by_name(given: Sequence[str]) -> dict[str, str]:
    """The sources given with --checkpoint."""
    named: dict[str, str] = {}
    for name, _, source in (text.partition("=") for text in given):
        if name in named:
            raise ValueError(f"--checkpoint {name} is given twice; each checkpoint needs a name of its own")
        named[name] = _source(source.strip())
    return named


def _start(named: dict[str, str], lanes: dict[str, str | None]) -> tuple[dict[str, str], str]:
    """The source of each lane, and a note if one replaces the usual or the given source; the terminal shows it too.

    Without --ar and --mars this is the real pair, if it is installed. A lane gets the checkpoint of the tiny pair if
    only the other lane's option is given, or if its own checkpoint is not installed.
    """
    wanted: dict[str, str] = {lane: source or TINY_SOURCES[lane] for lane, source in lanes.items()}
    if not any(lanes.values()):
        wanted = dict(pairs.REAL_SOURCES)
        missing = dict.fromkeys(lanes, pairs.real_missing())
    else:
        missing = {lane: unavailable(named.get(source, source)) for lane, source in wanted.items()}
    told = []
    for sentence in dict.fromkeys(filter(None, missing.values())):
        instead = " and ".join(Path(TINY_SOURCES[lane]).name for lane in lanes if missing[lane] == sentence)
        told.append(f"{sentence}; until then the page starts with {instead}.")
        sys.stderr.write(f"{told[-1]}\n")
    return {lane: TINY_SOURCES[lane] if missing[lane] else source for lane, source in wanted.items()}, " ".join(told)


def _checkpoints(named: dict[str, str], lanes: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """All checkpoints by name, and the name of each lane's checkpoint."""
    adapters = [str(file.parent) for file in sorted(SHIPPED.parent.glob("adapters/*/adapter_config.json"))]
    found = [source for source in (*NAMED_BASES, *adapters) if unavailable(source) is None]
    sources = offered(named, *(source for source in lanes.values() if source not in named), *found)
    by_source = _by_source(sources)
    return sources, {lane: source if source in named else by_source[source] for lane, source in lanes.items()}


def _pairs(sources: dict[str, str], choice: dict[str, str], *, named: bool) -> tuple[Pair, ...]:
    """The pairs that the page offers; with `named`, only the pair that the options name."""
    if named:
        return (pairs.given(**choice),)
    by_source = _by_source(sources)
    tiny = pairs.tiny(**{lane: by_source[source] for lane, source in TINY_SOURCES.items()})
    return (tiny,) if choice == {"ar": tiny.ar, "mars": tiny.mars} else (pairs.real(**choice), tiny)


def _by_source(sources: dict[str, str]) -> dict[str, str]:
    return {source: name for name, source in reversed(sources.items())}


def _keys(file: Path | None, *, openai: bool, accounts: bool) -> Keys | None:
    """The keys of the endpoint. An app with accounts must have them: an open endpoint would let anybody in."""
    if not openai:
        if file is not None:
            raise ValueError("--api-keys is for --openai")
        return None
    if file is None:
        if accounts:
            raise ValueError("--openai with accounts needs --api-keys FILE")
        return None
    from mars.serve.guard import read_keys

    return read_keys(file)


def _accounts(given: Sequence[str], file: Path | None) -> tuple[tuple[str, str], ...]:
    """Accounts from `USER:PASSWORD` strings and from the lines of a file, without blank lines and those with a #.

    ValueError says which of them is wrong, and no password.
    """
    entries = [(f"--auth number {number}", text) for number, text in enumerate(given, start=1)]
    if file is not None:
        named = [
            (f"--auth-file {file}, line {number}", line)
            for number, line in read_lines(file)
            if not line.lstrip().startswith("#")
        ]
        if not named:
            raise ValueError(f"--auth-file {file} names nobody: write one USER:PASSWORD a line")
        entries += named
    passwords: dict[str, str] = {}
    for where, text in entries:
        user, colon, password = text.partition(":")
        user = user.strip()
        if not colon or not user or not password:
            raise ValueError(f"{where} must be USER:PASSWORD, neither of them empty")
        if user in passwords:
            raise ValueError(f"{where} names the user {user!r} a second time")
        passwords[user] = password
    return tuple(passwords.items())


def _folder(folder: Path | None) -> Path | None:
    """The folder; if it does not exist it is made, readable by its owner alone."""
    if folder is not None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"--keep-shared {folder} is no folder that can be used: {error.strerror}") from None
        if not os.access(folder, os.W_OK):
            raise ValueError(f"--keep-shared {folder} cannot be written")
    return folder


def _source(text: str) -> str:
    """A folder as an absolute path, so that a shipped one is not offered twice; any other source as it is."""
    return str(Path(text).resolve()) if text and Path(text).is_dir() else text
