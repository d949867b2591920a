"""Sentences that say why a lane cannot write, or why it writes only one token per pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.compare.lane_choice import LaneChoice, to_settings
from app.models.sentences import error_sentence

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint


def problem(choice: LaneChoice, checkpoint: Checkpoint) -> str | None:
    """Why this checkpoint, paired with its draft where there is one, cannot write with this decoder; None if it can."""
    name, info, kinds = checkpoint.name, choice.info, checkpoint.kinds
    if info.draft and not choice.draft:
        return (
            f"{info.title}: this decoder needs a draft. Choose a smaller checkpoint with the same tokenizer in "
            "the settings."
        )
    if info.needs in kinds:
        return _refusal(choice, checkpoint)
    if "diffusion" in kinds:
        return f"{name} was trained by block diffusion and predicts no next token: only block diffusion can use it."
    if info.needs == "diffusion":
        return f"{name} was not trained by block diffusion, so that decoder cannot use it. Choose another decoder."
    return (
        f"{name} was not trained to fill masks, so “{info.title}” cannot use it. Choose a checkpoint made by "
        "python -m mars.training mars, or another decoder."
    )


def _refusal(choice: LaneChoice, checkpoint: Checkpoint) -> str | None:
    """The decoder's error, or None. Calling a decoder checks its arguments and makes no pass."""
    from mars.decoding import DECODERS  # late: torch
    from mars.serve import remote

    settings = to_settings(choice, threshold=None, block_size=checkpoint.block_size, max_new_tokens=1)
    try:
        if isinstance(checkpoint, remote.RemoteCheckpoint):
            remote.check(checkpoint, choice.decoder, settings)
            return None
        DECODERS[choice.decoder](checkpoint.engine, [[0]], settings)
    except ValueError as error:
        said = error_sentence(error)
        return said[:1].upper() + said[1:]
    return None


def inactive(choice: LaneChoice, checkpoint: Checkpoint, threshold: float | None) -> str | None:
    """Why a lane of the family `masks` writes one token per pass at this threshold; None if it writes more.

    `threshold` is the one in force, None for one-token mode. For other families the answer is None.
    """
    if choice.family != "masks":
        return None
    settings = to_settings(choice, threshold=threshold, block_size=checkpoint.block_size, max_new_tokens=1)
    if settings.block_size + settings.extra_proposal < 2:
        return "The block size is 1, which leaves no mask to read: each pass writes one token."
    if checkpoint.kinds == {"causal"}:
        return f"{checkpoint.name} was not trained to fill masks, so hardly anything but the first proposal is right."
    if threshold is None and choice.steered:
        return "The slider stands at one token per pass: move it to the left to let this lane write several."
    if threshold is None:
        return "Its threshold is set to one token per pass: choose the slider or a τ of its own in the settings."
    if threshold == (0.0 if choice.score == "entropy" else 1.0):
        return f"At τ = {threshold:g} almost nothing is accepted, so each pass writes one token."
    return None
