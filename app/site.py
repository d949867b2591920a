"""What `mars_site` adds to the app, where that package is there: pages that need no server, and runs on ZeroGPU.

Nothing else imports `mars_site`; the app works without it.
"""

from importlib import import_module
from typing import Any


def part(name: str) -> Any:
    """A module of `mars_site`; ValueError without that package."""
    try:
        import_module("mars_site")
    except ModuleNotFoundError:
        raise ValueError("This needs the package mars_site, which is not here.") from None
    return import_module(f"mars_site.{name}")
