"""Entry point: `python -m analysis COMMAND …`, see --help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from analysis.commands import COMMANDS

BAD_INPUT, INTERRUPTED = 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0, the command's own, 2 for bad input, 130 when interrupted."""
    options = _parser().parse_args(arguments)
    try:
        return COMMANDS[options.command].run(options) or 0
    except ValueError as error:
        print(f"analysis {options.command}: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m analysis", description="Measure checkpoints and decoders.", allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        command.add_options(commands.add_parser(name, help=command.help, description=command.help, allow_abbrev=False))
    return parser


if __name__ == "__main__":
    sys.exit(main())
