"""Write the answer to one prompt: `python -m mars.generate --help`."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from mars import decoders
from mars.control import Control
from mars.metrics import Tally
from mars.options import add_decoding_options, decoding_settings
from mars.records import ForwardPass, to_json
from mars.text import TextPieces, printable

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint

ENDINGS = {"stop": "the end of the turn", "length": "max_new_tokens", "cancelled": "a stop", None: "a stop"}
COLOURS = ("\x1b[36m", "\x1b[33m")
RESET = "\x1b[0m"
BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 2, 130, 141

EPILOG = """\
examples:
  python -m mars.generate --checkpoint assets/checkpoints/mars-b8 --decoder sliding_window --threshold 0.9 \\
      --prompt "Tom has 3 apples and buys 4 more. How many has he?" --records run.jsonl
  python -m mars.generate --checkpoint assets/checkpoints/mars-b8 --decoder self_speculative --prompt "..."
  python -m mars.generate --checkpoint assets/checkpoints/ar-sft --decoder autoregressive --prompt "..."

On a terminal the colour changes with every forward pass. NO_COLOR=1 turns colours off.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code: 0, 2 for bad input, 130 when interrupted, 141 when the reader left."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except ValueError as error:
        sys.stderr.write(f"mars.generate: {error}\n")
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has left; what Python still holds for it must not raise once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        sys.stderr.write(f"mars.generate: the text or its records cannot be written: {error.strerror}\n")
        return BAD_INPUT


class Painter:
    """Writes text to a stream, in a colour that changes with every pass if it is a terminal; None is closed."""

    def __init__(self, stream: TextIO | None, environment: dict[str, str]) -> None:
        self._stream = stream
        terminal = stream is not None and stream.isatty()
        self._colours = terminal and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"

    def write(self, text: str, number: int) -> None:
        """Write what pass `number` added."""
        text = printable(text)
        if text and self._colours:
            text = f"{COLOURS[number % len(COLOURS)]}{text}{RESET}"
        print(text, end="", file=self._stream, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m mars.generate",
        description="Write the answer to one prompt: the text to stdout, a summary to stderr.",
        epilog=f"decoders:\n{decoders.described()}\n\n{EPILOG}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_decoding_options(parser)
    parser.add_argument("--prompt", required=True, metavar="TEXT", help="what the user says")
    parser.add_argument(
        "--records", type=Path, metavar="FILE.jsonl", help="write the record of every pass, one JSON object a line"
    )
    parser.add_argument(
        "--trace", action="store_true", help="with --records, say what each pass read, who saw whom, and its reasons"
    )
    return parser


def _run(options: argparse.Namespace) -> int:
    if not options.prompt.strip():
        raise ValueError("--prompt is empty: say what the model should answer")
    if options.trace and options.records is None:
        raise ValueError("--trace needs --records FILE.jsonl, where it is written")
    decoders.check_name(options.decoder, "--decoder")
    decoding_settings(options, None)  # refuse a wrong setting before the weights are read
    if options.records is not None and not options.records.parent.is_dir():
        raise ValueError(f"--records {options.records} cannot be written: there is no folder {options.records.parent}")
    # Imported late, so that --help and a wrong option answer at once.
    from mars.checkpoint.checkpoint import load
    from mars.decoding import DECODERS

    checkpoint = load(options)
    settings = decoding_settings(options, checkpoint.block_size)
    control = Control(settings.threshold, settings.score, trace=options.trace)
    passes = DECODERS[options.decoder](checkpoint.engine, [checkpoint.encode(options.prompt)], settings, control)
    with _open(options.records) as records:
        tally, phases = _write(passes, checkpoint, records)
    sys.stderr.write(_summary(tally, phases, checkpoint))
    return 0


def _write(passes: Iterator[ForwardPass], checkpoint: Checkpoint, records: TextIO | None) -> tuple[Tally, Counter[str]]:
    """Write the text as it comes; what was counted, and how many passes of each phase there were."""
    tally, pieces, painter = Tally(), TextPieces(checkpoint.decode), Painter(sys.stdout, dict(os.environ))
    phases: Counter[str] = Counter()
    for record in passes:
        tally.add(record)
        phases[record.phase] += 1
        if records is not None:
            records.write(to_json(record) + "\n")
        # Passes that write are numbered on their own: by `index`, those with others between could look alike.
        for row in record.rows:
            painter.write("".join(map(pieces.add, row.accepted_ids)), tally.acceptance_lengths.total())
    painter.write(pieces.flush(), tally.acceptance_lengths.total())
    print(flush=True)
    return tally, phases


def _open(path: Path | None) -> TextIO | nullcontext[None]:
    if path is None:
        return nullcontext()
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        raise ValueError(f"--records {path} cannot be written: {error.strerror}") from error


def _summary(tally: Tally, phases: Counter[str], checkpoint: Checkpoint) -> str:
    more = "".join(f" (+ {phases[phase]} {phase})" for phase in ("commit", "draft") if phases[phase])
    return (
        f"{checkpoint.name}: {tally.tokens} tokens in {tally.passes} passes{more}, "
        f"{tally.tokens_per_forward:.2f} tokens/forward, {tally.tokens_per_second:.0f} tok/s, "
        f"ended by {ENDINGS[tally.rows[0].finish_reason]}\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
