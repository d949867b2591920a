"""Measures how long rows that write wait while a long prompt arrives, and how soon a second one like it is answered.

    python -m tests.performance.prompt --checkpoint assets/adapters/smollm2-135m-mars --rows 4 --tokens 3000

"Together" is how prompts of one run are read, in chunks of 512 tokens; "beside" is how requests are read
(mars/decoding/pool.py). Per repeat each is measured once, in turn. Times are wall-clock, between the tokens of a row.
Then, with nobody else there, a prompt comes to a fresh service, and a second one that begins with the same --shared
tokens and ends otherwise: seconds to the first token of each.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mars.config import DecodingSettings
from tests.performance.asking import quantile

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint
    from mars.decoding.service import Service

WARM_PASSES = 8
WAYS = {"together": False, "beside": True}
ENDS = ("What did they find there?", "Who came back, and when?")
TEXT = "The sea was calm that morning, and nobody on the island had yet seen the ship. "


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0."""
    options = _parser().parse_args(arguments)
    import torch

    from mars.checkpoint import load_checkpoint

    if options.threads:
        torch.set_num_threads(options.threads)
    checkpoint = load_checkpoint(options.checkpoint)
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    whole: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(options.repeats):
        for way, beside in WAYS.items():
            waits, seconds = measure(checkpoint, options.decoder, options.rows, options.tokens, beside=beside)
            times[way] += waits
            whole[way].append(seconds)
    sys.stdout.write(
        f"{'prompts':10} {'p50':>9} {'p99':>9} {'longest':>9} {'n':>6}   first token of the prompt's row\n"
    )
    for way, waits in times.items():
        found = [quantile(waits, share) * 1000 for share in (0.5, 0.99, 1)]
        line = " ".join(f"{value:6.1f} ms" for value in found)
        sys.stdout.write(f"{way:10} {line} {len(waits):6}   {quantile(whole[way], 0.5):6.2f} s\n")
    firsts = [shared(checkpoint, options.decoder, options.shared) for _ in range(options.repeats)]
    fresh, again = (quantile(seconds, 0.5) for seconds in zip(*firsts, strict=True))
    sys.stdout.write(f"first token, {options.shared} tokens shared: fresh {fresh:.3f} s, second {again:.3f} s (p50)\n")
    return 0


def measure(checkpoint: Checkpoint, decoder: str, rows: int, tokens: int, *, beside: bool) -> tuple[list[float], float]:
    """Seconds per token of the rows that write while the prompt is read, and those until its row's first token."""
    from mars.decoding.service import Service

    service = Service(checkpoint.engine, rows + 1, beside=beside)
    usual = DecodingSettings(max_new_tokens=600, block_size=checkpoint.block_size or 8)
    prompts = [checkpoint.encode(f"Tell story number {number}.") for number in range(rows)]
    writing = [service.submit(decoder, prompt, usual) for prompt in prompts]
    for _ in range(WARM_PASSES):
        service.advance()
    for stream in writing:
        stream.ready()
    text = long_text(checkpoint, tokens)
    long = service.submit(decoder, text, DecodingSettings(max_new_tokens=8, block_size=usual.block_size))
    begin = time.perf_counter()
    last = [begin] * rows
    waits: list[float] = []
    while not any(row.accepted for record in long.ready() for row in record.rows):
        service.advance()
        now = time.perf_counter()
        for number, stream in enumerate(writing):
            if gained := sum(row.accepted for record in stream.ready() for row in record.rows):
                waits += [(now - last[number]) / gained] * gained
                last[number] = now
    seconds = time.perf_counter() - begin
    for stream in (*writing, long):
        stream.close()
    service.advance()
    return waits, seconds


def shared(checkpoint: Checkpoint, decoder: str, tokens: int) -> tuple[float, float]:
    """Seconds to the first token of a fresh prompt, and of a second one that begins with so many of its tokens."""
    from mars.decoding.service import Service

    service = Service(checkpoint.engine, 2, beside=True)
    beginning = long_text(checkpoint, tokens)
    settings = DecodingSettings(max_new_tokens=4, block_size=checkpoint.block_size or 8)
    fresh, second = (_first(service, decoder, beginning + checkpoint.encode_text(end), settings) for end in ENDS)
    return fresh, second


def _first(service: Service, decoder: str, prompt: Sequence[int], settings: DecodingSettings) -> float:
    """Seconds to the first token of a request; returns once its row is free."""
    begin = time.perf_counter()
    stream = service.submit(decoder, prompt, settings)
    while not any(row.accepted for record in stream.ready() for row in record.rows):
        service.advance()
    seconds = time.perf_counter() - begin
    while not stream.ended:
        service.advance()
        stream.ready()
    return seconds


def long_text(checkpoint: Checkpoint, tokens: int) -> list[int]:
    """A text of so many tokens."""
    return checkpoint.encode_text(TEXT * (tokens // 8))[:tokens]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.performance.prompt", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--checkpoint", required=True, metavar="SOURCE")
    parser.add_argument("--decoder", default="self_speculative", metavar="NAME")
    parser.add_argument("--rows", type=int, default=4, metavar="N", help="rows that write (4)")
    parser.add_argument("--tokens", type=int, default=3000, metavar="N", help="of the prompt that arrives (3000)")
    parser.add_argument("--shared", type=int, default=1500, metavar="N", help="with which two prompts begin (1500)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="3")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads of a pass")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
