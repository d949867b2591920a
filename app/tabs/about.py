"""About: checkpoints, findings, the meaning of the figures; the text is that of our own documents."""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import gradio as gr

ROOT = Path(__file__).parents[2]
_HEADER = re.compile(r"\A---\n.*?\n---\n+", re.DOTALL)
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_RELATIVE = re.compile(r"\[([^\]]+)\]\((?!https?://)[^)]*\)")
NO_CLAIMS = "No claim has been tested here yet."
LEAD = (
    "MARS (Mask AutoRegreSsion) fine-tunes an autoregressive model so that masks appended to the text are filled in "
    "one causal forward pass. The model gains no parameters. Each claim is judged on tiny models that know six "
    "families of synthetic problems, and on SmolLM2 where that has been measured."
)


def build(sources: Mapping[str, str]) -> None:
    """Lay out the tab inside the current Blocks; `sources` are the folders or Hub ids of the checkpoints by name."""
    with gr.Column(elem_classes="lens-about"):
        _prose(LEAD, "about-lead")
        _title("Claims")
        _prose(document("docs/claims.md") or NO_CLAIMS, "about-claims")
        _title("Checkpoints")
        for number, (name, card) in enumerate(cards(sources).items()):
            with gr.Accordion(name, open=False, elem_classes="lens-checkpoint"):
                _prose(card, f"about-card-{number}")
        _title("Metrics")
        _prose(document("docs/metrics.md"), "about-metrics")
        for title, name in (("Your own checkpoint", "about-own"), ("How to cite", "about-cite")):
            _title(title)
            _prose(section("README.md", title), name)


def _title(text: str) -> None:
    gr.Markdown(f"## {text}", elem_classes="lens-prose")


def _prose(text: str, name: str) -> None:
    gr.Markdown(text, elem_id=name, elem_classes="lens-prose")


def document(name: str) -> str:
    """The text of a document of the repository, such as `docs/metrics.md`; empty where the file is not there."""
    path = ROOT / name
    return readable(path.read_text(encoding="utf-8")) if path.is_file() else ""


def section(name: str, heading: str) -> str:
    """The text under `## heading` of a document, without the heading; empty where there is none."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", document(name), re.DOTALL | re.MULTILINE)
    return found[1].strip() if found else ""


def cards(sources: Mapping[str, str]) -> dict[str, str]:
    """The model card of every checkpoint that is a folder with a card, without the YAML header."""
    found = {}
    for name, source in sources.items():
        with suppress(OSError, ValueError):
            found[name] = readable(_HEADER.sub("", (Path(source) / "README.md").read_text(encoding="utf-8")))
    return found


def readable(markdown: str) -> str:
    """Markdown for the page: without the first heading and pictures; links into the repository become plain text."""
    text = re.sub(r"\A# [^\n]*\n+", "", markdown)
    return _RELATIVE.sub(r"\1", _IMAGE.sub(r"\1", text)).strip()
