"""What runs in the page before any script of Gradio's: written into the page on its way out."""

from __future__ import annotations

from functools import cache

from app import assets

_HEAD = b"<head>"


def with_prelude(html: bytes) -> bytes:
    """The page with our script first in its head; one without a head stays as it is."""
    return html.replace(_HEAD, _HEAD + _script(), 1)


@cache
def _script() -> bytes:
    return f"<script>\n{assets.script('clocks.js')}</script>".encode()
