"""`python -m tests.performance.shared_base`: the memory of three lanes on one base against that of one lane.

Each case is a process of its own, which loads its lanes and lets every one of them write: AR on the base, and a MARS
lane and an exact lane on its adapter. Exit code 1 if three lanes take more than `MOST` times the memory of AR alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from mars.decoders import BASELINE, EXACT, USUAL
from tests.performance.memory import resident_megabytes

MOST = 1.3
LANES = (BASELINE, USUAL, EXACT)
PROMPT = "Why is the sky blue?"


def megabytes(lanes: Sequence[str], base: str, adapter: str, tokens: int) -> float:
    """The resident memory of this process once each of these lanes has written so many tokens."""
    from mars.checkpoint import load_checkpoint
    from mars.config import DecodingSettings
    from mars.decoding import DECODERS

    loaded = {lane: load_checkpoint(base if lane == BASELINE else adapter) for lane in lanes}
    for lane, checkpoint in loaded.items():
        settings = DecodingSettings(max_new_tokens=tokens)
        if checkpoint.supports_masks:
            settings = replace(settings, block_size=checkpoint.usual_block_size)
        for _ in DECODERS[lane](checkpoint.engine, [checkpoint.encode(PROMPT)], settings):
            pass
    return resident_megabytes(os.getpid())


def apart(lanes: Sequence[str], base: str, adapter: str, tokens: int) -> float:
    """`megabytes` of a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(megabytes, (lanes, base, adapter, tokens))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    command = argparse.ArgumentParser(prog="python -m tests.performance.shared_base", description=__doc__)
    command.add_argument("--base", default="smollm2-135m", metavar="SOURCE")
    command.add_argument("--adapter", default="assets/adapters/smollm2-135m-mars", metavar="SOURCE")
    command.add_argument("--tokens", type=int, default=48, metavar="N", help="that each lane writes (48)")
    options = command.parse_args(arguments)
    one, three = (apart(lanes, options.base, options.adapter, options.tokens) for lanes in (LANES[:1], LANES))
    sys.stdout.write(f"one lane {one:,.0f} MB, three lanes on one base {three:,.0f} MB: {three / one:.2f} ×\n")
    return 0 if three <= MOST * one else 1


if __name__ == "__main__":
    sys.exit(main())
