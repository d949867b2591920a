"""`python -m app`: load the two checkpoints and serve the page on this machine."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from app.server import options, serving
from app.server.options import Options


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted; the exit status."""
    chosen = options.read(arguments)
    site = chosen.site
    if not serving.can_serve(site.host, site.port):
        place = f"{site.host}, port {site.port}" if site.port else site.host
        sys.stderr.write(f"The page cannot be served on {place}: taken or not allowed. Choose another --port.\n")
        return 1
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    serving.prepare()
    return _serve(chosen)


def _serve(chosen: Options) -> int:
    from app import page
    from app.device import Device
    from app.models import Models
    from app.placement import Loader
    from app.runner import Runner
    from app.sessions import Sessions

    pinned = chosen.choice.values()
    models = Models(chosen.sources, Loader(chosen.device), keep=chosen.keep, pinned=pinned)
    runner = Runner(models, Device(chosen.places, chosen.queue_size), Sessions(), chosen.limits)
    blocks = page.build(runner, chosen.choice)
    url = serving.launch(blocks, runner, chosen.site, page.looks())
    for name in pinned:  # only now: libraries that two threads import at once can come out half made
        models.request(name)
    sys.stdout.write(f"MARS Lens is at {url}\n")
    sys.stdout.flush()
    serving.stay(blocks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
