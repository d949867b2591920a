"""Puts the page's own script and the table of the decoders, as data, before Gradio's first module.

Modules run in the order in which a page names them, so that Gradio's components find what they call.
"""

from __future__ import annotations

import re

from app.browser import bundle
from app.browser.scripts import page_script

_FIRST_MODULE = re.compile(rb'(?=<script type="module")')


def with_prelude(html: bytes) -> bytes:
    """The page with what is ours before its first module; one without any stays as it is."""
    ours = f'{bundle.decoder_table()}\n<script type="module" src="{page_script()}"></script>\n'.encode()
    return _FIRST_MODULE.sub(lambda _: ours, html, count=1)
