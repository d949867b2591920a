"""`python -m app`: serve the page on this machine, or with `export` write it as static files."""

import logging
import sys
from collections.abc import Sequence

from app.server import options, serving


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted, or export; the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["export"]:
        from app.export import command

        return command.main(given[1:])
    chosen = options.read(given)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    serving.prepare()
    from app.export.shell import single  # late: it imports Gradio, which reads the environment

    return serving.host(chosen, single)


if __name__ == "__main__":
    sys.exit(main())
