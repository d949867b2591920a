"""Scripted checkpoints for the page's tests; as a script, the page itself with them.

    python tests/app/scripted_pair.py RESULTS [OPTION ...]

serves on a free port, with the options of `python -m app` that say how, gives its address in the first line, and
appends every finished run to the file RESULTS, one JSON object a line. It is a process of its own so that Gradio's
threads and warnings stay out of pytest's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.compare import runner as running
from app.compare.runner import Runner
from app.models.manager import Models
from app.models.pairs import Pair
from app.scheduling import LINE, USUAL_LIMITS, AdmissionQueue, Limits, Sessions
from app.server import options, serving
from mars.checkpoint import Checkpoint
from mars.records import to_json
from mars.training.start import train_tokenizer
from mars_tasks import TASKS, sample
from tests.scripted import ScriptedModel

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from app.runs.run import Run

AR_REPLY = "Let us think. Oslo: 2 * 6 = 12.\nCharleston: 3 * 12 = 36. Together 36 + 12 + 6 = 54.\n#### 54"
MARS_REPLY = "Let us think. Oslo: 2 * 6 = 12.\nCharleston: 3 * 12 = 36. Together 36 + 12 + 6 = 48.\n#### 48"
MARKUP = "<script>document.title = 'gone'</script><img src=x onerror=\"document.title='gone'\">&amp; <b>bold</b> 😀"


def sure_by_depth(position: int, masks_read: int) -> float:
    """A score that falls with the masks read, faster at some positions than at others; the first is unsure."""
    if not masks_read:
        return 0.6
    return max(0.4, 0.995 - 0.012 * masks_read * (1 + position % 3))


@dataclass(frozen=True, slots=True)
class Scriptorium:
    """Makes checkpoints whose model recites; they share one tokenizer."""

    tokenizer: PreTrainedTokenizerFast

    @classmethod
    def open(cls) -> Scriptorium:
        """Train the tokenizer on a few problems of each family."""
        texts = [AR_REPLY, MARS_REPLY]
        for problem in (sample(task, seed) for task in TASKS for seed in range(20)):
            texts += [problem.prompt, problem.solution]
        return cls(train_tokenizer(texts, 700, 2048))

    def checkpoint(
        self, name: str, reply: str, *, masks: bool = True, context_length: int = 2048, seconds: float = 0.004
    ) -> Checkpoint:
        """A checkpoint that answers `reply` to everything; a pass takes so many seconds."""
        ids = self.tokenizer(reply, add_special_tokens=False)["input_ids"]
        stop = self.tokenizer.eos_token_id

        def script(row: int, position: int, masks_read: int) -> tuple[int, float]:
            return ids[position] if position < len(ids) else stop, sure_by_depth(position, masks_read)

        engine = ScriptedModel(
            script,
            vocab_size=len(self.tokenizer),
            mask_token_id=self.tokenizer.mask_token_id if masks else None,
            stop_token_ids=frozenset({stop}),
            context_length=context_length,
            seconds_per_pass=seconds,
        )
        block_size = 8 if masks else None
        return Checkpoint(name=name, engine=engine, tokenizer=self.tokenizer, block_size=block_size, record={})

    def runner(self, places: int = 4, line: int = LINE, limits: Limits = USUAL_LIMITS) -> Runner:
        """A runner with the pair `ar` and `mars`, `markup`, which writes HTML, and `broken`, which cannot be read.

        `slow` is `mars` for what must happen while a lane writes, however busy the machine is.
        """
        known = {
            "ar": self.checkpoint("ar", AR_REPLY, masks=False),
            "mars": self.checkpoint("mars", MARS_REPLY),
            "markup": self.checkpoint("markup", MARKUP),
            "slow": self.checkpoint("slow", MARS_REPLY, seconds=0.2),
        }

        def load(source: str) -> Checkpoint:
            if source not in known:
                raise ValueError(f"{source}/config.json is missing: give a folder that a training run wrote")
            return known[source]

        models = Models({name: name for name in (*known, "broken")}, load)
        return Runner(models, AdmissionQueue(places, line), Sessions(), limits)


def _keep(result: Callable[..., Run | None], results: Path) -> Callable[..., Run | None]:
    def kept(*arguments: Any, **named: Any) -> Run | None:
        run = result(*arguments, **named)
        if run is not None:
            lanes = [
                {"key": lane.key, "text": lane.text, "records": [to_json(record) for record in lane.records]}
                for lane in run.lanes
            ]
            with results.open("a") as file:
                file.write(json.dumps(lanes) + "\n")
        return run

    return kept


def _serve(results: Path, arguments: Sequence[str]) -> None:
    chosen = options.read(arguments)
    serving.prepare()
    from app import page

    runner = Scriptorium.open().runner(chosen.places, 2 if chosen.places == 1 else LINE, chosen.limits)
    running.finished = _keep(running.finished, results)
    blocks = page.build(runner, [Pair(ar="ar", mars="mars")])
    url = serving.launch(blocks, runner, chosen)
    sys.stdout.write(url + "\n")
    sys.stdout.flush()
    serving.stay(blocks)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), sys.argv[2:])
