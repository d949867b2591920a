"""What `mars_site` adds to the app, where that package is there: pages that need no server, and runs on ZeroGPU.

Nothing else imports `mars_site`; the app works without it.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

RECORDED = "static/recorded.txt"
"""The address, relative to the page, of the run that it plays before anything else."""


def part(name: str) -> Any:
    """A module of `mars_site`; ValueError without that package."""
    if not find_spec("mars_site"):
        raise ValueError("This needs the package mars_site, which is not here.")
    return import_module(f"mars_site.{name}")


def first_run() -> bytes:
    """The lines of the run at `RECORDED`; nothing without that package."""
    found: bytes = part("recorded").first_run() if find_spec("mars_site") else b""
    return found
