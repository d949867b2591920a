"""The whole app, from its options to a page that is served until it is told to end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.libraries import uncollected
from app.server import serving
from app.server.options import Options

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint


def host(chosen: Options, load: Callable[[str], Checkpoint] | None = None) -> None:
    """Serve until interrupted; `load` makes a checkpoint of a folder or Hub id (None: on the device of the options)."""
    with uncollected():
        from app import page
        from app.device import Device
        from app.models import Models
        from app.placement import Loader
        from app.runner import Runner
        from app.sessions import Sessions

        pinned = chosen.choice.values()
        models = Models(chosen.sources, load or Loader(chosen.device, chosen.threads), keep=chosen.keep, pinned=pinned)
        runner = Runner(models, Device(chosen.places, chosen.queue_size), Sessions(), chosen.limits)
        blocks = page.build(runner, chosen.choice)
        url = serving.launch(blocks, runner, chosen.site, page.looks())
    for name in pinned:  # only now: what the page imports is not read by two threads at once (app/libraries.py)
        models.request(name)
    sys.stdout.write(f"MARS Lens is at {url}\n")
    sys.stdout.flush()
    serving.stay(blocks)
