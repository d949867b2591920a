"""The title, question and caption of each figure, for the report and for Trade-offs alike. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.figures.calibration import FEWEST
from analysis.figures.words import SOURCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """`question` is the one that the figure answers, `reading` how to read it.

    `recipes` (analysis/recipes.py) make the runs that are drawn; of those that Trade-offs draws, the first is a plan.
    """

    title: str
    question: str
    reading: str
    recipes: tuple[str, ...]

    def caption(self, note: str = "") -> str:
        """The question, how to read the figure, and a note on the view it is shown in."""
        return " ".join(part for part in (self.question, self.reading, note) if part)


DESCRIPTIONS = {
    "frontier": Description(
        title="Accuracy against throughput",
        question="How much accuracy do more tokens cost?",
        reading="Up is more accurate; right is more tokens, each second or each forward pass. A line runs through the "
        "thresholds of one decoder, from one-token mode to the most lenient; decoders without a threshold are single "
        "marks. The dashed line is AR on the same problems, with its 95 % band.",
        recipes=("shipped", "ablations", "real-frontier"),
    ),
    "families": Description(
        title="By family of problems",
        question="Which problems lose accuracy?",
        reading="All panels have the same axes. The band is AR on this family.",
        recipes=("shipped", "ablations"),
    ),
    "equal_accuracy": Description(
        title="Decoders at equal accuracy",
        question="Which decoder writes the most tokens within an accuracy budget?",
        reading="For each decoder, the setting with the most tokens that is within the budget with 95 % confidence, by "
        "a score test on the same problems as AR, corrected for the settings tried.",
        recipes=("shipped",),
    ),
    "pass_cost": Description(
        title="What a pass costs",
        question="How much longer does a pass take when it reads more columns?",
        reading="A column is one position that the pass reads: a token, a draft or a mask. The two "
        "limits are those of the same machine on large tensors: the time to read all weights once, as fast as a sum "
        "reads, and to compute the products of its columns. While reading is the limit, further columns are nearly "
        "free, and several tokens per pass save time.",
        recipes=("columns",),
    ),
    "thresholds": Description(
        title="What a threshold costs, on a real model",
        question="How much accuracy does each τ cost on a real benchmark?",
        reading="SmolLM2-135M on IFEval: one-token mode of the gated adapter writes the base's own text, that of the "
        "merged one does not. Each line runs from one-token mode to the least τ; stars are exact decoding; the dashed "
        "line is AR of the base with its 95 % band.",
        recipes=("real-thresholds", "real-merged", "real-merged-accuracy"),
    ),
    "efficiency": Description(
        title="Speed-up against tokens per forward",
        question="How much wall-clock time does a gain in tokens per forward save?",
        reading="On the dashed line, a pass takes as long as one of AR. The further below, the more a wider pass "
        "costs; at a speed-up under 1 the decoder is slower than AR.",
        recipes=("shipped",),
    ),
    "acceptance": Description(
        title="Acceptance lengths",
        question="How many tokens does a pass accept?",
        reading="The share of passes by the number of tokens that they accepted.",
        recipes=("shipped",),
    ),
    "ablation": Description(
        title="Block size and SFT loss",
        question="What do larger blocks and the SFT loss change?",
        reading="Models that saw equally many conversations, in one-token mode and at τ = 0.95. Hollow marks are "
        f"published ({SOURCE}): means of six benchmarks, other models.",
        recipes=("ablations",),
    ),
    "scores": Description(
        title="Probability, margin or entropy",
        question="Does the choice of acceptance score matter?",
        reading="Each line is one score compared with the threshold. Where the lines coincide, the choice does not "
        "matter.",
        recipes=("ablations",),
    ),
    "caching": Description(
        title="Cache block and batch size",
        question="When is block_cached faster than AR?",
        reading="Its speed-up over AR, with intervals; blue is faster than AR, orange slower. The published map "
        f"({SOURCE}) has a baseline of its own.",
        recipes=("shipped",),
    ),
    "kinds": Description(
        title="By kind of text, on a real model",
        question="Which kinds of text gain most?",
        reading="Exact decoding of SmolLM2-135M with its adapter on Spec-Bench: tokens per forward, and what is left "
        "of them in wall-clock. Left of the dashed line it is slower than AR, whose text it writes. Drafts come from "
        "masks alone (tree), from masks and copies of the text (lookup), or from what pays in each pass (auto). An "
        "answer with a code fence is code, one with three list items a list, any other to a question of maths is "
        "maths. Intervals resample few questions and are narrower than they should be; fewer than eight have none.",
        recipes=("real-spec-bench", "real-kinds"),
    ),
    "batches": Description(
        title="By batch size, on a real model",
        question="At which batch does writing several tokens per pass stop paying?",
        reading="SmolLM2-135M with its adapter on prompts of IFEval. Every setting took turns with AR at each batch "
        "size. Below the dashed line it is slower than AR. Exact decoding writes AR's text; a lower τ may not. "
        "Intervals are over turns, so they hold the machine too.",
        recipes=("real-batches",),
    ),
    "breakdown": Description(
        title="Where masks gain, on a real model",
        question="Which tokens do masks write, and with how many masks and how much training?",
        reading="Exact decoding of SmolLM2-135M with its adapter on Spec-Bench, with a draft from every mask in every "
        "pass (layout quadratic), whatever that costs: tokens of a kind over the passes that end with one of them, for "
        "a pass ends where a draft is wrong. The dashed line is AR. The adapter was trained with 6 masks. Gains "
        "flatten after about two hours of training: stop there. Intervals resample the questions.",
        recipes=("real-breakdown",),
    ),
    "reliability": Description(
        title="Do the scores mean what they say?",
        question="How often is a proposal right, given its score?",
        reading="Right means the token that one-token mode writes there. Each panel is one depth, the number of masks "
        "read. On the dotted diagonal a proposal is right as often as its score says. Bars show the share of proposals "
        f"in each bin; bins of fewer than {FEWEST} are left out.",
        recipes=("calibration",),
    ),
}
"""By the names of the functions in `analysis.figures` that draw them."""
UNDER_LOAD = Description(
    title="Under load",
    question="What happens when many requests arrive?",
    reading="Each line is one way of decoding with the same engine and trace of arrivals, {how}. Goodput counts "
    "answers in time: first token within {ttft:g} s, further tokens within {tpot:.3g} s each (dashed lines). The "
    "dotted upright is saturation, what AR answers at most. Times are p50 (solid), p99 (dotted); crosses are bursts. "
    "Each mark is a trace of {seconds:.0f} s, longer at low rates; point at it, or see the table, for n and 95 % "
    "intervals: Wilson's of goodput, given these arrivals, and of accuracy against AR, answer by answer. They take "
    "requests as independent; but these share a queue, and {questions} questions repeat, so they are too narrow rather "
    "than too wide. {model}, {dtype}, {places} places, {threads} threads, {hardware}, {date}, commit {commit}, "
    "seed {seed}.",
    recipes=("real-load-40ms", "real-load-in-turn", "real-load", "load"),
)
"""A load test is no run, so no figure of the others draws it; the facts in braces are those of the test."""
