"""The figures' questions, which are their titles, and how to read them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The question that a figure answers, which is its title, and how to read it."""

    question: str
    reading: str


FIGURES = {
    "frontier": Figure(
        question="How much accuracy do more tokens cost?",
        reading="Up is more accurate: the difference from AR on the same problems, in points, with its 95 % interval. "
        "For answers that are not scored, up is the share of tokens that equal those of one-token mode. Right is "
        "more tokens, per second or per forward pass. A line joins the thresholds of one decoder, from one-token "
        "mode to the lowest; a decoder without a threshold is a single mark. The dashed line is AR.",
    ),
    "equal_accuracy": Figure(
        question="Which decoder is fastest within the accuracy budget?",
        reading="For each decoder, the setting with the most tokens that is within the budget with 95 % confidence, by "
        "a score test on the same problems as AR, corrected for all settings tried. An exact decoder that wrote AR's "
        "text in every answer needs no test.",
    ),
}
"""By the names of the functions in `analysis.figures` that draw them."""
