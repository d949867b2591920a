"""Small components that tabs share."""

from __future__ import annotations

import gradio as gr

from app import assets


def plain(elem_id: str, value: str = "", label: str = "") -> gr.HTML:
    """A labelled line of text that Python sets; it goes into the page as text, never as markup."""
    return gr.HTML(
        value,
        html_template=f'<p class="lens-line"><span>{label}</span><strong class="lens-plain"></strong></p>',
        js_on_load=assets.script("plain.js"),
        apply_default_css=False,
        elem_id=elem_id,
    )
