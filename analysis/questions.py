"""The figures' questions, which are their titles, and how to read them: for the report and for Trade-offs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The question that a figure answers, which is its title, and how to read it."""

    question: str
    reading: str

    def caption(self, note: str = "") -> str:
        """How to read the figure, and a note on the view it is shown in."""
        return " ".join(part for part in (self.reading, note) if part)


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
    "families": Figure(
        question="Which problems lose accuracy?",
        reading="All panels have the same axes. The dashed line is AR on this family.",
    ),
    "pass_cost": Figure(
        question="How much longer does a pass take when it reads more columns?",
        reading="A column is one position that the pass reads: a token, a draft or a mask. The two limits are those of "
        "the same machine on large tensors: the time to read all weights once, as fast as a sum reads, and to compute "
        "the products of its columns.",
    ),
    "reliability": Figure(
        question="How often is a proposal right, given its score?",
        reading="Right means the token that one-token mode writes there. Each panel is one depth, the number of masks "
        "read. On the dotted diagonal a proposal is right as often as its score says. Bars show the share of proposals "
        "in each bin; bins of few proposals are left out.",
    ),
    "batches": Figure(
        question="At which batch does writing several tokens per pass stop paying?",
        reading="SmolLM2-135M with its adapter on prompts of IFEval. Every setting took turns with AR at each batch "
        "size. Below the dashed line it is slower than AR. Exact decoding writes AR's text; a lower τ may not. "
        "Intervals are over turns, so they hold the machine too.",
    ),
}
"""By the names of the functions in `analysis.figures` that draw them."""
