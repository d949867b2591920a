"""Entry point: `python -m analysis COMMAND …`, see --help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from analysis.commands import COMMANDS

BAD_INPUT, INTERRUPTED = 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0, the command's own, 2 for bad input, 130 when interrupted."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    asked = [word for word in words[:1] if word in COMMANDS]
    options = _parser(asked or list(COMMANDS)).parse_args(words)
    try:
        return COMMANDS[options.command].run(options)
    except ValueError as error:
        print(f"analysis {options.command}: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser(names: Sequence[str]) -> argparse.ArgumentParser:
    """Of these commands alone: the others need not be imported."""
    parser = argparse.ArgumentParser(
        prog="python -m analysis", description="Measure checkpoints and decoders.", allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in names:
        command = COMMANDS[name]
        command.add_options(commands.add_parser(name, help=command.help, description=command.help, allow_abbrev=False))
    return parser


if __name__ == "__main__":
    sys.exit(main())
