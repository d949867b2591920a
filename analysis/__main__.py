"""Entry point: `python -m analysis COMMAND …`, see --help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from analysis.commands import COMMANDS, module_of

BAD_INPUT, INTERRUPTED = 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0, the command's own, 2 for bad input, 130 when interrupted."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    asked = [word for word in words[:1] if word in COMMANDS]
    options = parser(asked or COMMANDS).parse_args(words)
    try:
        return int(module_of(options.command).run(options) or 0)
    except (ValueError, OSError) as error:
        says = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            says = f"{error.filename} cannot be read or written: {error.strerror}"
        print(f"analysis {options.command}: {says}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED


def parser(names: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of these commands only, so that the others need not be imported."""
    whole = argparse.ArgumentParser(
        prog="python -m analysis", description="Measure checkpoints and decoders.", allow_abbrev=False
    )
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in names:
        module = module_of(name)
        module.add_options(commands.add_parser(name, help=module.HELP, description=module.HELP, allow_abbrev=False))
    return whole


if __name__ == "__main__":
    sys.exit(main())
