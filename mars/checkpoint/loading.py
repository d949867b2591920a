"""Loads what the options of a command name: the checkpoint, and a draft model for speculative decoding."""

from __future__ import annotations

import argparse
from dataclasses import replace

from mars import decoders
from mars.checkpoint.checkpoint import Checkpoint, load_checkpoint
from mars.checkpoint.errors import CheckpointError


def check_draft(options: argparse.Namespace) -> None:
    """Raise ValueError unless --draft is given to a decoder that needs a draft model, and to no other."""
    name = options.decoder
    needed = name in decoders.TABLE and decoders.TABLE[name].draft
    if needed and options.draft is None:
        raise ValueError(f"--decoder {name} needs --draft DIR: a smaller checkpoint with the same vocabulary")
    if not needed and options.draft is not None:
        raise ValueError(f"--draft is for --decoder {decoders.names(decoders.drafted())}, got --decoder {name}")


def load(options: argparse.Namespace) -> Checkpoint:
    """The checkpoint of --checkpoint; with --draft its engine is the pair of both models.

    Raises:
        ValueError: one sentence about the option or the file at fault.
    """
    check_draft(options)
    return load_pair(options)


def load_pair(options: argparse.Namespace) -> Checkpoint:
    """The checkpoint of --checkpoint, with --draft as a pair, whatever decoder is to use it.

    Raises:
        ValueError: one sentence about the option or the file at fault.
    """
    target = load_source(options.checkpoint, options)
    return target if options.draft is None else paired(target, load_source(options.draft, options))


def load_source(source: str, options: argparse.Namespace) -> Checkpoint:
    """The checkpoint of a source as --dtype, --device, --invariant, --base and --allow-other-base say, if given.

    Raises:
        CheckpointError: one sentence about the file at fault.
    """
    names = ("dtype", "device", "invariant", "base", "allow_other_base")
    return load_checkpoint(source, **{name: getattr(options, name) for name in names if hasattr(options, name)})


def paired(target: Checkpoint, draft: Checkpoint) -> Checkpoint:
    """The target with an engine of both models, for speculative decoding.

    Raises:
        ValueError: one sentence: their vocabularies differ, or they are on different devices.
    """
    from mars.decoding.pair import Pair

    # Token ids pass between the two, so a token that both know has the same id in both.
    known = target.tokenizer.get_vocab()
    for token, number in draft.tokenizer.get_vocab().items():
        if known.get(token, number) != number:
            raise CheckpointError(
                f"the draft {draft.name} has another vocabulary than {target.name}: {token!r} is {number} in one and "
                f"{known[token]} in the other; take a draft with the same tokenizer"
            )
    return replace(target, engine=Pair(target.engine, draft.engine, same_tokens=True))
