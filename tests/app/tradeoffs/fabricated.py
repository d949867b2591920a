"""A small store of fabricated runs on disk, made with what the tests of `analysis` make theirs."""

from pathlib import Path

from analysis.runs import write_run
from tests.analysis import conftest as make

TASKS = ("logic", "word_problems")


def store(folder: Path) -> Path:
    """Write runs of "ar", "mars" (block size 8) and "mars-b4", which the scripted app does not have, into `folder`.

    At τ 0.95 mars is as accurate as AR, at 0.7 it loses 2.5 points, at 0.5 it loses 30.
    """
    ar, mars, small = make.model("ar", "sft", None, None), make.model("mars"), make.model("mars-b4", block_size=4)
    runs = [make.run(ar, problems=200)]
    for threshold, accuracy, gain in ((None, 0.9, 1.0), (0.95, 0.9, 1.6), (0.7, 0.875, 2.2), (0.5, 0.6, 3.0)):
        runs.append(make.run(mars, "sliding_window", problems=200, threshold=threshold, accuracy=accuracy, gain=gain))
    runs.append(make.run(small, "sliding_window", problems=200, threshold=0.9, accuracy=0.89, gain=1.4))
    runs.append(make.run(mars, "sliding_window", problems=200, threshold=0.8, score="margin", accuracy=0.88, gain=1.9))
    for size in (1, 4):
        runs.append(make.run(ar, problems=200, batch_size=size, group="timed"))
        timed = {"problems": 200, "batch_size": size, "group": "timed", "threshold": 0.95, "gain": 1.6}
        runs.append(make.run(mars, "sliding_window", speed=150.0, **timed))
        cached = timed | {"gain": 1.5}  # in the same time fewer tokens a pass than a window that slides
        runs.append(make.run(mars, "block_cached", speed=170.0, cache_block_size=16, **cached))
    for entry, rows in runs:
        write_run(folder, entry, rows.assign(text=f"what {entry['model']['name']} wrote"))
    entry, rows = make.run(mars, "self_speculative", problems=200, gain=1.3, layout="quadratic")
    write_run(folder, {**entry, "plan": "other"}, rows)
    return folder
