"""About: what the checkpoints are, what was found out, what the figures mean, and where this machine stands."""

from __future__ import annotations

from collections.abc import Mapping

import gradio as gr

from app.tabs import documents
from app.tabs.parts import QUIET

NO_CLAIMS = "No claim has been tested here yet."
LEAD = (
    "MARS (Mask AutoRegreSsion) fine-tunes an autoregressive model so that masks appended to the text are filled in "
    "one causal forward pass. The paper's models gain no parameters; SmolLM2 here gains a small adapter. Each claim is "
    "judged on tiny models that know six families of synthetic problems, and on SmolLM2 where that has been measured."
)


def build(page: gr.Blocks, sources: Mapping[str, str]) -> None:
    """Lay out the tab inside the current Blocks; `sources` are the folders or Hub ids of the checkpoints by name."""
    with gr.Column(elem_classes="lens-about"):
        _prose(LEAD, "about-lead")
        _titled("Claims", documents.document("docs/claims.md") or NO_CLAIMS, "about-claims")
        _title("Checkpoints")
        for number, (name, card) in enumerate(documents.cards(sources).items()):
            with gr.Accordion(name, open=False, elem_classes="lens-checkpoint"):
                _prose(card, f"about-card-{number}")
        _titled("Metrics", documents.document("docs/metrics.md"), "about-metrics")
        _titled("Your own checkpoint", documents.section("README.md", "Your own checkpoint"), "about-own")
        _title("This machine")
        machine = _prose("", "about-machine")
        _titled("How to cite", documents.section("README.md", "How to cite"), "about-cite")
    page.load(documents.machine, outputs=machine, **QUIET)


def _titled(title: str, text: str, name: str) -> None:
    _title(title)
    _prose(text, name)


def _title(text: str) -> None:
    gr.Markdown(f"## {text}", elem_classes="lens-prose")


def _prose(text: str, name: str) -> gr.Markdown:
    return gr.Markdown(text, elem_id=name, elem_classes="lens-prose")
