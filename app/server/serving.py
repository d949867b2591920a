"""The page on the network: Gradio's server, behind the gate, until the process is told to end."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import sys
import tempfile
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from app.models.manager import Models
from app.models.placement import Loader
from app.runs.stored import SharedRuns
from app.scheduling import AdmissionQueue, Sessions
from app.server.options import Options, Site
from mars.garbage import gc_frozen

if TYPE_CHECKING:
    import gradio as gr

    from app.compare.runner import Runner
    from app.server.openai import Endpoint
    from app.tabs.step import WritePage

SPACES = "https://huggingface.co"
SPARE_THREADS = 40
SESSIONS_KEPT = 200
EVERY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound to
EVENT_SECONDS, PROGRESS_SECONDS = 0.01, 0.1  # how often Gradio looks for events, and for progress of its own kind


def prepare() -> None:
    """Set the environment variables that Gradio and the Hub's library read; call it before importing either.

    With these they send nothing anywhere, keep their files apart from other apps', and keep little history.
    """
    folder = tempfile.mkdtemp(prefix="mars-lens-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ.update(
        GRADIO_ANALYTICS_ENABLED="False",
        GRADIO_ANALYTICS_MAX_EVENTS="100",
        GRADIO_ANALYTICS_CACHE_FREQUENCY="1000000",  # a table of all events, made anew after each
        GRADIO_TEMP_DIR=folder,
        HF_HUB_DISABLE_TELEMETRY="1",
    )
    for name in ("GRADIO_ALLOWED_PATHS", "GRADIO_SHARE", "GRADIO_MCP_SERVER", "GRADIO_ROOT_PATH"):
        os.environ.pop(name, None)


def can_serve(host: str, port: int | None) -> bool:
    """True if the address can be bound. Check this first: everything after it takes seconds."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port or 0))
    except OSError:
        return False
    return True


def host(chosen: Options, write_page: WritePage | None = None) -> None:
    """Serve until interrupted; `write_page` makes the page of one run, for visitors who share it."""
    with gc_frozen():
        from gradio.utils import is_zero_gpu_space

        from app import page
        from app.compare.runner import Runner

        pinned = chosen.choice.values()
        loader = Loader(chosen.device, chosen.threads, base=chosen.base, allow_other_base=chosen.allow_other_base)
        models = Models(chosen.sources, loader, keep=chosen.keep, pinned=pinned, told=loader.told)
        made: type[Runner] = Runner
        if is_zero_gpu_space():
            from app.compare.zerogpu import ZeroRunner  # late: it needs a package that only such a Space has

            made = ZeroRunner
        runner = made(models, AdmissionQueue(chosen.places, chosen.queue_size), Sessions(), chosen.limits)
        shared = SharedRuns(chosen.keep_shared, chosen.shared_days) if chosen.keep_shared else None
        blocks = page.build(runner, chosen.choice, chosen.pairs, chosen.note, shared, write_page)
        endpoint = None
        if chosen.site.openai:
            from app.server.openai import Endpoint  # late: it reads torch

            endpoint = Endpoint(runner, list(dict.fromkeys(pinned)), chosen.site.keys)
        url = launch(blocks, runner, chosen.site, page.looks(), endpoint)
    # Only now: what the page imports is not read by two threads at once (app/models/placement.py).
    for name in () if runner.elsewhere else pinned:
        models.request(name)
    sys.stdout.write(f"MARS Lens is at {url}\n")
    sys.stdout.flush()
    stay(blocks)
    if endpoint is not None:
        endpoint.close()


def launch(
    blocks: gr.Blocks, runner: Runner, site: Site, looks: dict[str, Any], endpoint: Endpoint | None = None
) -> str:
    """Serve `blocks` in a thread, with Gradio's `looks`, and the endpoint; returns the address on this machine."""
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware

    from app.server.gate import LARGEST_BODY, Gate, explained
    from app.server.routes import routes

    os.environ["FORWARDED_ALLOW_IPS"] = ",".join(site.proxies)  # uvicorn would believe any program on this machine
    # Gradio looks for events a thousand times a second: a page that nobody uses would take 7 % of a core.
    blocks._queue.sleep_when_free, blocks._queue.progress_update_sleep_when_free = EVENT_SECONDS, PROGRESS_SECONDS
    blocks._queue.pending_messages_per_session.max_size = SESSIONS_KEPT  # of which some never read their answers
    _, url, _ = blocks.launch(
        server_name=site.host,
        server_port=site.port,
        root_path=site.root_path,
        auth=list(site.accounts) or None,
        mcp_server=site.mcp,
        max_threads=runner.queue.most_runs + SPARE_THREADS,
        max_file_size=LARGEST_BODY,
        state_session_capacity=SESSIONS_KEPT,
        app_kwargs={
            "middleware": [Middleware(Gate, rules=_rules(blocks, site))],
            "routes": [*routes(runner), *(endpoint.routes if endpoint else ())],
            "exception_handlers": dict.fromkeys((HTTPException, RequestValidationError), explained),
        },
        prevent_thread_lock=True,
        **_CLOSED,
        **looks,
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


# Nothing leaves this machine or is kept in the browser, and no error of ours is shown to a person.
_CLOSED: dict[str, Any] = {
    "share": False,
    "ssr_mode": False,
    "pwa": False,
    "quiet": True,
    "footer_links": [],
    "run_history": False,
    "enable_monitoring": False,
    "show_error": False,
}


def _rules(blocks: gr.Blocks, site: Site) -> Any:
    from gradio.components import File, UploadButton

    from app.server.gate import Rules

    space = os.environ.get("SPACE_HOST", "")  # set on Hugging Face, which shows the page in a frame
    shown_at = {*site.allowed_hosts, urlsplit(site.root_path).hostname or "", space} - {""}
    return Rules(
        frame_ancestors=site.frame_ancestors or ((SPACES,) if space else ()),
        hosts={site.host.lower()},
        shown_at=frozenset(shown_at),
        any_number=site.host in EVERY_ADDRESS,
        root_path=site.root_path,
        uploads=any(isinstance(block, File | UploadButton) for block in blocks.blocks.values()),
        mcp=site.mcp,
        openai=site.openai,
        events=frozenset(blocks.fns),
    )
