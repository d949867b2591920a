"""The whole app: from its options to a page that is served until the process is told to end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.models.libraries import gc_frozen
from app.server import serving
from app.server.options import Options

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint


def host(chosen: Options, load: Callable[[str], Checkpoint] | None = None) -> None:
    """Serve until interrupted; `load` loads the checkpoint of a source (None: on the device of the options)."""
    with gc_frozen():
        from app import page
        from app.compare.runner import Runner
        from app.models.manager import Models
        from app.models.placement import Loader
        from app.runs.shared import SharedRuns
        from app.scheduling.admission import AdmissionQueue
        from app.scheduling.sessions import Sessions

        pinned = chosen.choice.values()
        loader = Loader(chosen.device, chosen.threads, base=chosen.base, allow_other_base=chosen.allow_other_base)
        models = Models(chosen.sources, load or loader, keep=chosen.keep, pinned=pinned, told=loader.told)
        runner = Runner(models, AdmissionQueue(chosen.places, chosen.queue_size), Sessions(), chosen.limits)
        shared = SharedRuns(chosen.keep_shared, chosen.shared_days) if chosen.keep_shared else None
        blocks = page.build(runner, chosen.choice, chosen.pairs, chosen.note, shared)
        endpoint = None
        if chosen.site.openai:
            from app.server.openai import Endpoint  # late: it reads torch

            endpoint = Endpoint(runner, list(dict.fromkeys(pinned)), chosen.site.keys)
        url = serving.launch(blocks, runner, chosen.site, page.looks(), endpoint.routes if endpoint else ())
    for name in pinned:  # only now: what the page imports is not read by two threads at once (app/models/libraries.py)
        models.request(name)
    sys.stdout.write(f"MARS Lens is at {url}\n")
    sys.stdout.flush()
    serving.stay(blocks)
    if endpoint is not None:
        endpoint.close()
