"""The page on the network: Gradio's server, behind the gate, until the process is told to end."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
from queue import SimpleQueue
from typing import TYPE_CHECKING

from app import site
from app.models.manager import Models
from app.models.placement import Loader
from app.scheduling import AdmissionQueue, Sessions
from app.server.options import Options
from mars.garbage import gc_frozen

if TYPE_CHECKING:
    import gradio as gr

    from app.compare.runner import Runner

SPACES = "https://huggingface.co"
SPARE_THREADS = 40
SESSIONS_KEPT = 200
EVENT_SECONDS, PROGRESS_SECONDS = 0.01, 0.1  # how often Gradio looks for events, and for progress of its own kind


def prepare() -> None:
    """Set the environment variables that Gradio, uvicorn and the Hub's library read; call it before importing them.

    With these they send nothing anywhere, keep their files apart from other apps', keep little history, and believe
    no proxy that `FORWARDED_ALLOW_IPS` does not name (uvicorn would believe any program on this machine).
    """
    folder = tempfile.mkdtemp(prefix="mars-lens-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ.setdefault("FORWARDED_ALLOW_IPS", "")
    os.environ.update(
        GRADIO_ANALYTICS_ENABLED="False",
        GRADIO_ANALYTICS_MAX_EVENTS="100",
        GRADIO_ANALYTICS_CACHE_FREQUENCY="1000000",  # a table of all events, made anew after each
        GRADIO_TEMP_DIR=folder,
        HF_HUB_DISABLE_TELEMETRY="1",
    )
    os.environ.pop("GRADIO_ALLOWED_PATHS", None)


def host(chosen: Options) -> int:
    """Serve until interrupted; the exit status."""
    with gc_frozen():
        from gradio.utils import is_zero_gpu_space

        from app import page
        from app.compare.runner import Runner

        pinned = (chosen.pairs[0].ar, chosen.pairs[0].mars)
        loader = Loader(chosen.device, base=chosen.base, allow_other_base=chosen.allow_other_base)
        models = Models(chosen.sources, loader, pinned=pinned, told=loader.told)
        made: type[Runner] = site.part("zerogpu").ZeroRunner if is_zero_gpu_space() else Runner
        runner = made(models, AdmissionQueue(chosen.places), Sessions(), chosen.limits)
        blocks = page.build(runner, chosen.pairs, chosen.note)
        try:
            url = launch(blocks, runner, chosen)
        except OSError:
            place = f"{chosen.host}, port {chosen.port}" if chosen.port else chosen.host
            sys.stderr.write(f"The page cannot be served on {place}: taken or not allowed. Choose another --port.\n")
            return 1
    # Only now: what the page imports is not read by two threads at once (app/models/placement.py).
    for name in () if runner.elsewhere else pinned:
        models.request(name)
    sys.stdout.write(f"MARS Lens is at {url}\n")
    sys.stdout.flush()
    stay(blocks)
    return 0


def launch(blocks: gr.Blocks, runner: Runner, chosen: Options) -> str:
    """Serve `blocks` in a thread; returns the address on this machine."""
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware

    from app.browser import bundle
    from app.server.gate import LARGEST_BODY, Gate, Rules, explained
    from app.server.routes import routes
    from app.tabs import theme

    space = os.environ.get("SPACE_HOST", "")  # set on Hugging Face, which shows the page in a frame
    rules = Rules(
        framed_by=SPACES if space else "",
        hosts={chosen.host.lower()},
        shown_at={*chosen.allowed_hosts, *filter(None, space.split(","))},  # with a domain of its own it names both
        root_path=os.environ.get("GRADIO_ROOT_PATH", "").rstrip("/"),
        events=frozenset(blocks.fns),
    )
    # Gradio looks for events a thousand times a second: a page that nobody uses would take 7 % of a core.
    blocks._queue.sleep_when_free, blocks._queue.progress_update_sleep_when_free = EVENT_SECONDS, PROGRESS_SECONDS
    blocks._queue.pending_messages_per_session.max_size = SESSIONS_KEPT  # of which some never read their answers
    # Nothing leaves this machine or is kept in the browser, and no error of ours is shown to a person.
    _, url, _ = blocks.launch(
        server_name=chosen.host,
        server_port=chosen.port,
        root_path=rules.root_path,
        auth=chosen.accounts or None,
        max_threads=runner.queue.most_runs + SPARE_THREADS,
        max_file_size=LARGEST_BODY,
        state_session_capacity=SESSIONS_KEPT,
        app_kwargs={
            "middleware": [Middleware(Gate, rules=rules)],
            "routes": routes(runner),
            "exception_handlers": dict.fromkeys((HTTPException, RequestValidationError), explained),
        },
        prevent_thread_lock=True,
        share=False,
        mcp_server=False,
        ssr_mode=False,
        pwa=False,
        quiet=True,
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        show_error=False,
        theme=theme.build(),
        css=bundle.styles(),
    )
    return str(url)


def stay(blocks: gr.Blocks) -> None:
    """Serve until Ctrl-C or a signal to end; then close the connections and clean up."""
    # No exception: one that is raised in a callback of the garbage collector, say, is lost, and with it the signal.
    ended: SimpleQueue[None] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.put(None))
    ended.get()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # for somebody who does not want to wait
    blocks.close(verbose=False)
