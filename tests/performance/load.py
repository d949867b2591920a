"""`python -m tests.performance.load`: start the app, let visitors do what people do, and say what went wrong.

Each visitor runs one thing after the other: mostly whole runs, some with τ moved on the way, some left in the middle,
some by the public endpoint. Every text is compared with what the same question got before, with nobody else there.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import httpx

from mars.tasks import TASKS, sample
from tests.performance.memory import Watch, resident_megabytes
from tests.performance.served import served
from tests.performance.visitor import FULL_SPEED, READABLE, LostError, Shown, Visitor

THRESHOLDS = (0.95, 0.8)
MOVED = (0.55, 0.65, 0.75)
FAMILIES = 6


class Load:
    """Counts and complaints so far; the visitors write to it."""

    def __init__(self, url: str, seed: int) -> None:
        self.url = url
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._seed = seed
        self._expected: dict[tuple[str, float], Mapping[str, str]] = {}

    def ask_alone(self) -> None:
        """Ask everything once with nobody else there: what everybody must get later."""
        for task in list(TASKS)[:FAMILIES]:
            prompt = sample(task, self._seed).prompt
            for threshold in THRESHOLDS:
                with Visitor(self.url) as visitor:
                    shown = visitor.run(prompt, threshold)
                if shown.state != "done":
                    raise LostError(f"alone, a run ended as {shown.state}: {shown.sentence}")
                self._expected[prompt, threshold] = shown.texts

    def visit(self, number: int, until: float) -> None:
        """One visitor after another, until it is time."""
        dice = random.Random(f"{self._seed} {number}")
        while time.monotonic() < until:
            prompt, threshold = dice.choice(list(self._expected))
            act = dice.choices((self.run, self.steer, self.leave, self.generate), (7, 1, 1, 1))[0]
            try:
                with Visitor(self.url) as visitor:
                    act(visitor, prompt, threshold, dice)
                self.counts[act.__name__] += 1
            except (LostError, httpx.HTTPError) as error:
                self.wrong.append(f"{act.__name__} of visitor {number}: {type(error).__name__} {error}")

    def run(self, visitor: Visitor, prompt: str, threshold: float, dice: random.Random) -> None:
        """A whole run, now and then at reading pace."""
        shown = visitor.run(prompt, threshold, READABLE if dice.random() < 0.1 else FULL_SPEED)
        if self._ended(shown):
            self._own_threshold(shown, {threshold})
            self._compare(shown.texts, prompt, threshold)

    def steer(self, visitor: Visitor, prompt: str, threshold: float, dice: random.Random) -> None:
        """A run whose threshold moves; nobody else's does."""
        moved = dice.choice(MOVED)
        shown = visitor.run(prompt, threshold, READABLE, lambda: visitor.move_slider(moved))
        if self._ended(shown):
            expected = self._expected[prompt, threshold]
            self._own_threshold(shown, {threshold, moved})
            self._compare({"a": shown.texts["a"]}, prompt, threshold, {"a": expected["a"]})

    def leave(self, visitor: Visitor, prompt: str, threshold: float, dice: random.Random) -> None:
        """A run that is left in the middle."""
        visitor.start_and_leave(prompt, threshold)

    def generate(self, visitor: Visitor, prompt: str, threshold: float, dice: random.Random) -> None:
        """An answer by the public endpoint."""
        text = visitor.generate(prompt, threshold)
        self._compare({"b": text}, prompt, threshold, {"b": self._expected[prompt, threshold]["b"]})

    def _ended(self, shown: Shown) -> bool:
        if shown.state == "refused":
            self.counts["turned away"] += 1
        elif shown.state != "done":
            raise LostError(f"a run ended as {shown.state}: {shown.sentence}")
        return shown.state == "done"

    def _compare(
        self, texts: Mapping[str, str], prompt: str, threshold: float, expected: Mapping[str, str] | None = None
    ) -> None:
        expected = expected or self._expected[prompt, threshold]
        for lane in texts.keys() | expected.keys():
            found, alone = texts.get(lane, ""), expected.get(lane, "")
            if found != alone:
                pairs = enumerate(zip(found, alone, strict=False))
                same = next((number for number, (one, other) in pairs if one != other), min(len(found), len(alone)))
                self.wrong.append(
                    f"“{prompt[:40]}…” at τ {threshold}: lane {lane} wrote another text than alone from character "
                    f"{same} on: {found[same : same + 60]!r}, alone {alone[same : same + 60]!r}"
                )

    def _own_threshold(self, shown: Shown, own: set[float | None]) -> None:
        """Complain if lane b, which the slider moves, had a threshold that this visitor never set."""
        if strangers := shown.thresholds["b"] - own:
            self.wrong.append(f"a lane had the thresholds of somebody else: {strangers}")


def parser() -> argparse.ArgumentParser:
    """The command line; what it does not know goes to the app."""
    command = argparse.ArgumentParser(
        prog="python -m tests.performance.load",
        description=__doc__,
        epilog="Further options are those of python -m app.",
    )
    command.add_argument("--sessions", type=int, default=20, metavar="N", help="visitors at once (default: 20)")
    command.add_argument("--minutes", type=float, default=10.0, metavar="M", help="how long (default: 10)")
    command.add_argument("--seed", type=int, default=1, metavar="S", help="which questions, and who does what when")
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Load the app; 0 when nothing was lost, mixed up or left behind."""
    options, for_the_app = parser().parse_known_args(arguments)
    with served(for_the_app) as (url, pid):
        load = Load(url, options.seed)
        load.ask_alone()
        watch = Watch(pid)
        watch.start()
        began = time.monotonic()
        until = began + 60 * options.minutes
        visitors = [threading.Thread(target=load.visit, args=(number, until)) for number in range(options.sessions)]
        for visitor in visitors:
            visitor.start()
        for visitor in visitors:
            visitor.join()
        seconds = time.monotonic() - began
        watch.stop()
        left = _left_behind(url)
        early, late = watch.growth()
        sys.stdout.write(
            f"{options.sessions} visitors, {seconds:.0f} s: {dict(load.counts)}\n"
            f"lost or mixed up: {len(load.wrong)}\n"
            f"resident memory: {early:.0f} MB early, {late:.0f} MB late, {resident_megabytes(pid):.0f} MB at the end\n"
            f"runs left two seconds after the last visitor: {left}\n"
        )
        for sentence in load.wrong[:20]:
            sys.stdout.write(f"  {sentence}\n")
    return 1 if load.wrong or left else 0


def _left_behind(url: str) -> int:
    time.sleep(2.0)
    runs = httpx.get(url + "healthz", timeout=60).json()["runs"]
    return int(runs["active"] + runs["waiting"])


if __name__ == "__main__":
    sys.exit(main())
