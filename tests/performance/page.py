"""`python -m tests.performance.page`: how soon the app and its page are there, and what drawing long texts costs.

The models are told that no token ends a turn, so that every lane writes as many tokens as it may. Run it alone on an
idle machine: browser, app and models share its cores.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack

from app.scheduling import PACES
from app.server import options
from mars.metrics import Tally
from tests.performance.alone import Alone, shown_tallies
from tests.performance.cores import only, shared_out
from tests.performance.memory import resident_megabytes
from tests.performance.served import served
from tests.performance.visit import Streamed, Visit, visit

LONGEST_TASK_MS = 50.0


def parser() -> argparse.ArgumentParser:
    """The command line; what it does not know goes to the app."""
    command = argparse.ArgumentParser(
        prog="python -m tests.performance.page",
        description=__doc__,
        epilog="Further options are those of python -m app.",
    )
    command.add_argument("--tokens", type=int, default=512, metavar="N", help="tokens of each lane (default: 512)")
    command.add_argument("--runs", type=int, default=20, metavar="N", help="runs of the page (default: 20)")
    command.add_argument("--pairs", type=int, default=5, metavar="N", help="of them compared with none (default: 5)")
    command.add_argument(
        "--pace",
        choices=tuple(PACES),
        default="Real time",
        help="how fast the page shows the passes (default: Real time)",
    )
    command.add_argument(
        "--apart", action="store_true", help="the last core is the browser's alone, as if it were on another machine"
    )
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0, 1 when a task of the page was too long, or 2 for bad input."""
    given, for_the_app = parser().parse_known_args(arguments)
    try:
        of_the_app, of_the_browser = shared_out(given.apart)
    except ValueError as error:
        sys.stderr.write(f"tests.performance.page: {error}\n")
        return 2
    alone = Alone(options.read(for_the_app), of_the_app)
    with ExitStack() as stack:
        began = time.monotonic()
        with only(of_the_app):
            url, pid = stack.enter_context(served(for_the_app, "tests.performance.endless"))
        up = time.monotonic() - began
        with only(of_the_browser):
            page = stack.enter_context(visit())
        opened = time.monotonic()
        usable = page.open(url)
        page.ready()
        ready = up + time.monotonic() - opened
        figure = page.first_figure()
        page.set_up(given.tokens, given.pace)
        warm = page.run()
        alone.tallies(warm.document)
        streamed, heaps, pairs = _runs(page, alone, given.runs, given.pairs)
        resident = resident_megabytes(pid)
    tasks = [length for run in streamed for length in run.long_tasks]
    sys.stdout.write(
        f"address after {up:.1f} s, page usable {usable:.2f} s after the request, ready after {ready:.1f} s\n"
        f"first figure of Trade-offs {figure:.2f} s after the click\n"
        f"{len(streamed)} runs, {len(warm.document['lanes'])} lanes, {given.tokens} tokens each, {given.pace}: "
        f"{statistics.median(run.seconds for run in streamed):.2f} s from the click to the last picture (median)\n"
        f"tasks over {LONGEST_TASK_MS:.0f} ms while streaming: {len(tasks)}"
        + (f", longest {max(tasks):.0f} ms\n" if tasks else "\n")
        + f"page's memory after run {', '.join(map(str, heaps))}: "
        f"{', '.join(f'{heap:.1f}' for heap in heaps.values())} MB; the app's: {resident:.0f} MB\n"
        + "".join(_cost(warm, place, pairs) for place in range(len(warm.document["lanes"])) if pairs)
    )
    return 1 if tasks else 0


Pair = tuple[list[Tally], list[Tally]]


def _runs(page: Visit, alone: Alone, runs: int, pairs: int) -> tuple[list[Streamed], dict[int, float], list[Pair]]:
    streamed, found = list[Streamed](), list[Pair]()
    heaps = dict.fromkeys(sorted({1, max(1, runs // 2), runs}), 0.0)
    for number in range(1, runs + 1):
        streamed.append(page.run())
        if number in heaps:  # not each time: a forced collection makes the next one come early, in the run that follows
            heaps[number] = page.heap_megabytes()
        if number <= pairs:
            document = streamed[-1].document
            found.append((shown_tallies(document), alone.tallies(document)))
    return streamed, heaps, found


def _cost(run: Streamed, place: int, pairs: Sequence[Pair]) -> str:
    lane = run.document["lanes"][place]
    ratios = sorted(shown[place].tokens_per_second / by_itself[place].tokens_per_second for shown, by_itself in pairs)
    speed = statistics.median(shown[place].tokens_per_second for shown, _ in pairs)
    return (
        f"{lane['title']}: {speed:.0f} tok/s of model time with the page, {statistics.median(ratios):.3f} "
        f"[{ratios[0]:.3f}, {ratios[-1]:.3f}] of what it has without (median and range of {len(pairs)} pairs)\n"
    )


if __name__ == "__main__":
    sys.exit(main())
