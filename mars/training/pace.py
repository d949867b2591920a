"""Training by the clock: so many minutes in all, in as many calls as it takes, where steps can't be counted before.

A machine that is lent for minutes at a time sets the pace: the learning rate falls with the time used, not with the
steps done, and a call ends by itself, saved, when its own minutes are up.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

FILE = "pace.json"
"""In the folder of a saved step: the seconds trained until then."""
ENDLESS_EPOCHS = 100_000.0
"""What the Trainer is told where the clock decides."""
_LEAST = 1e-3


class Pace(TrainerCallback):
    """Ends training after `minutes`, those of earlier calls included, or a call after `pause_after` of its own.

    `factor` is what the peak learning rate is multiplied by now: it rises over `warmup_share` of the time, then falls
    to 0 as a cosine.
    """

    def __init__(
        self,
        minutes: float,
        warmup_share: float,
        pause_after: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ):
        self._total = 60 * minutes
        self._warmup_share = warmup_share
        self._own = math.inf if pause_after is None else 60 * pause_after
        self._now = now
        self._before = 0.0
        self._start = now()

    @property
    def seconds(self) -> float:
        """Seconds trained, those of earlier calls included."""
        return self._before + self._now() - self._start

    @property
    def factor(self) -> float:
        """Of the peak learning rate."""
        share = min(1.0, self.seconds / self._total)
        if share < self._warmup_share:
            return max(_LEAST, share / self._warmup_share)
        return 0.5 * (1 + math.cos(math.pi * (share - self._warmup_share) / (1 - self._warmup_share)))

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> TrainerControl:
        """Take over the seconds of the step that training goes on from."""
        file = _folder(args, state) / FILE
        self._before = float(json.loads(file.read_text(encoding="utf-8"))["seconds"]) if file.is_file() else 0.0
        self._start = self._now()
        return control

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> TrainerControl:
        """Save and stop when the time is up."""
        if self.seconds >= self._total or self.seconds - self._before >= self._own:
            control.should_save = control.should_training_stop = True
        return control

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> TrainerControl:
        """Note the seconds beside the step."""
        if state.is_world_process_zero:
            text = json.dumps({"seconds": round(self.seconds, 3)}) + "\n"
            (_folder(args, state) / FILE).write_text(text, encoding="utf-8")
        return control


def _folder(args: TrainingArguments, state: TrainerState) -> Path:
    return Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
