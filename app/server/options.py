"""The command line of `python -m app`, checked before anything is loaded."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from app.models import pairs
from app.models.manager import SHIPPED, offered
from app.models.pairs import TINY_SOURCES, Pair
from app.scheduling import LINE, MOST_TOKENS, Limits
from mars.checkpoint.sources import NAMED_BASES, unavailable
from mars.lines import read_lines
from mars.options import SOURCES, add_base_options, add_device_options, parse_host, whole


class Options(argparse.Namespace):
    """Options, checked. `sources` are the checkpoints by name.

    `pairs` are those that the page offers, the first at the start; `note` says why the first is not the usual one.
    `allowed_hosts` are further names at which browsers find the page, `accounts` pairs of a name and a password.
    """

    sources: dict[str, str]
    pairs: tuple[Pair, ...]
    note: str
    base: str | None
    allow_other_base: bool
    device: str
    places: int
    limits: Limits
    host: str
    port: int | None
    allowed_hosts: list[str]
    accounts: list[tuple[str, str]]


def read(arguments: Sequence[str] | None = None) -> Options:
    """The options of a command line; leaves with exit status 2 and one sentence where something is wrong."""
    command = parser()
    given = command.parse_args(arguments, Options())
    try:
        given.accounts = _accounts(given.auth_file) if given.auth_file else []
    except ValueError as error:
        command.error(str(error))
    given.sources, given.pairs, given.note = _offer({"ar": given.ar, "mars": given.mars}, given.checkpoint)
    most = given.max_new_tokens_limit
    given.limits = Limits(new_tokens=most)
    given.pairs = tuple(replace(pair, max_new_tokens=min(pair.max_new_tokens, most)) for pair in given.pairs)
    return given


def parser() -> argparse.ArgumentParser:
    command = argparse.ArgumentParser(
        prog="python -m app",
        description="MARS Lens: an AR and a MARS checkpoint write side by side, every forward pass visible.",
    )
    add = command.add_argument
    where = f"{SOURCES}, the folder of an adapter, or the address of python -m mars.serve"
    add("--ar", type=_source, metavar="SOURCE", help=f"the AR lane's checkpoint: {where}")
    add("--mars", type=_source, metavar="SOURCE", help="the MARS lane's checkpoint, likewise")
    add(
        "--checkpoint",
        action="append",
        default=[],
        type=_source,
        metavar="SOURCE",
        help="another checkpoint to choose from, loaded when it is first used; may be given again",
    )
    add_base_options(command)
    add_device_options(command, dtype=False)
    add("--port", type=whole(1, 65535), help="port to serve on (default: the first free one from 7860)")
    add("--host", default="127.0.0.1", help="address to bind to (default: this machine only)")
    add(
        "--allowed-host",
        dest="allowed_hosts",
        action="append",
        default=[],
        type=parse_host,
        metavar="NAME",
        help="a name at which browsers find the page, such as lens.example.org or *.app.github.dev, where a proxy or a "
        "forwarded port shows it; may be given again",
    )
    add("--auth-file", type=Path, metavar="FILE", help="who may log in, one USER:PASSWORD a line (default: anybody)")
    add("--places", type=whole(1, 64), default=4, metavar="N", help=f"runs at once (default: 4); {LINE} more wait")
    add(
        "--max-new-tokens-limit",
        type=whole(16, 32768),
        default=MOST_TOKENS,
        metavar="N",
        help=f"the longest answer that can be asked for (default: {MOST_TOKENS})",
    )
    return command


def _start(lanes: dict[str, str | None]) -> tuple[dict[str, str], str]:
    """The source of each lane, of the tiny pair where none is given or installed, and a note on that."""
    usual = TINY_SOURCES if any(lanes.values()) else pairs.REAL_SOURCES
    wanted = {lane: source or usual[lane] for lane, source in lanes.items()}
    real = usual is pairs.REAL_SOURCES
    missing = {lane: pairs.real_missing() if real else unavailable(source) for lane, source in wanted.items()}
    told = []
    for sentence in dict.fromkeys(filter(None, missing.values())):
        instead = " and ".join(Path(TINY_SOURCES[lane]).name for lane in lanes if missing[lane] == sentence)
        told.append(f"{sentence}; until then the page starts with {instead}.")
        sys.stderr.write(f"{told[-1]}\n")
    return {lane: TINY_SOURCES[lane] if missing[lane] else source for lane, source in wanted.items()}, " ".join(told)


def _offer(lanes: dict[str, str | None], others: Sequence[str]) -> tuple[dict[str, str], tuple[Pair, ...], str]:
    """All checkpoints by name; the pairs that the page offers, only that of the options if they name one; a note."""
    wanted, note = _start(lanes)
    adapters = [str(file.parent) for file in sorted(SHIPPED.parent.glob("adapters/*/adapter_config.json"))]
    installed = [source for source in (*NAMED_BASES, *adapters) if unavailable(source) is None]
    sources = offered(*wanted.values(), *others, *installed)
    names = {source: name for name, source in sources.items()}
    first = {lane: names[source] for lane, source in wanted.items()}
    if any(lanes.values()):
        return sources, (Pair(ar=first["ar"], mars=first["mars"]),), note
    tiny = pairs.tiny(**{lane: names[source] for lane, source in TINY_SOURCES.items()})
    return sources, (tiny,) if wanted == TINY_SOURCES else (pairs.real(**first), tiny), note


def _accounts(file: Path) -> list[tuple[str, str]]:
    """The accounts in the lines of a file; ValueError names a wrong line, and no password."""
    passwords: dict[str, str] = {}
    for number, line in read_lines(file):
        if line.lstrip().startswith("#"):
            continue
        user, _, password = line.partition(":")
        user = user.strip()
        if not user or not password:
            raise ValueError(f"--auth-file {file}, line {number} must be USER:PASSWORD, neither of them empty")
        if user in passwords:
            raise ValueError(f"--auth-file {file}, line {number} names the user {user!r} a second time")
        passwords[user] = password
    if not passwords:
        raise ValueError(f"--auth-file {file} names nobody: write one USER:PASSWORD a line")
    return [*passwords.items()]


def _source(text: str) -> str:
    """A folder as an absolute path, so that a shipped one is not offered twice; any other source as it is."""
    return str(Path(text).resolve()) if text and Path(text).is_dir() else text
