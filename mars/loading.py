"""What the options of a command name: the checkpoint, and the draft model beside it for speculative decoding."""

from __future__ import annotations

import argparse
from dataclasses import replace

from mars.checkpoint import Checkpoint, CheckpointError, load_checkpoint

DRAFTED = "speculative"


def check_draft(options: argparse.Namespace) -> None:
    """Raise ValueError unless --draft is given to speculative decoding, and to nothing else."""
    if options.decoder == DRAFTED and options.draft is None:
        raise ValueError(f"--decoder {DRAFTED} needs --draft DIR: a smaller checkpoint with the same vocabulary")
    if options.decoder != DRAFTED and options.draft is not None:
        raise ValueError(f"--draft is for --decoder {DRAFTED}, got --decoder {options.decoder}")


def load(options: argparse.Namespace) -> Checkpoint:
    """The checkpoint of --checkpoint; with --draft its engine is the pair of both models.

    Raises:
        ValueError: one sentence about the option or the file at fault.
    """
    check_draft(options)
    target = load_checkpoint(options.checkpoint, dtype=options.dtype, device=options.device)
    if options.draft is None:
        return target
    return paired(target, load_checkpoint(options.draft, dtype=options.dtype, device=options.device))


def paired(target: Checkpoint, draft: Checkpoint) -> Checkpoint:
    """The target with an engine of both models, for speculative decoding.

    Raises:
        ValueError: one sentence: their vocabularies differ, or they are on different devices.
    """
    from mars.decoding.pair import Pair

    _check_vocabularies(target, draft)
    return replace(target, engine=Pair(target.engine, draft.engine, same_tokens=True))


def _check_vocabularies(target: Checkpoint, draft: Checkpoint) -> None:
    """Token ids pass between the two, so a token that both know has the same id in both."""
    known = target.tokenizer.get_vocab()
    for token, number in draft.tokenizer.get_vocab().items():
        if known.get(token, number) != number:
            raise CheckpointError(
                f"the draft {draft.name} has another vocabulary than {target.name}: {token!r} is {number} in one and "
                f"{known[token]} in the other; take a draft with the same tokenizer"
            )
