"""Above the tabs: the name, the controls for every tab (link, looks, keys), and notes about the address."""

from __future__ import annotations

import html

import gradio as gr

from app.tabs.parts import drawn

_BAR = """<header class="lens-masthead"><h1>{title}</h1><p>{subtitle}</p>
<div class="lens-tools" role="group" aria-label="This page">
<button type="button" class="lens-tool lens-link">Copy link</button>
<button type="button" class="lens-tool lens-theme">Dark</button>
<button type="button" class="lens-tool lens-projecting" aria-pressed="false">Projector</button>
<button type="button" class="lens-tool lens-keys" title="Keys" aria-label="? Keys" aria-haspopup="dialog">?</button>
</div></header>
<div class="lens-notes"></div>"""


def build(title: str, subtitle: str) -> gr.HTML:
    """The masthead; `know` tells it the tabs, which come after it."""
    template = _BAR.format(title=html.escape(title), subtitle=html.escape(subtitle))
    return drawn("masthead", template, elem_id="masthead")


def know(masthead: gr.HTML, tabs: gr.Tabs) -> None:
    """Tell the masthead which tabs an address may name: those of `tabs`, by their ids."""
    masthead.props["tabs"] = [tab.id for tab in tabs.children if isinstance(tab, gr.Tab)]
