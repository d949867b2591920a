"""`python -m app`: serve the page on this machine, or with `export` write it as static files."""

import logging
import sys
from collections.abc import Sequence

from app import site
from app.server import options, serving


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted, or export; the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["export"]:
        try:
            exported: int = site.part("command").main(given[1:])
        except ValueError as error:
            sys.stderr.write(f"app export: {error}\n")
            return 2
        return exported
    chosen = options.read(given)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    serving.prepare()
    return serving.host(chosen)


if __name__ == "__main__":
    sys.exit(main())
