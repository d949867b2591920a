"""The card of a mark: the run's setting, measured values and provenance, its texts, and the actions on it."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from analysis.figures import words
from analysis.runs import RunStore
from analysis.runs.schema import is_judged
from analysis.text_table import signed
from app.compare import problems
from app.tradeoffs.run_cache import RunCache
from mars.checkpoint.sources import weights_digest
from mars.config import DEFAULTS, METHOD_FIELDS
from mars_tasks import TASKS, numbered

PAGE = 6
MOST_BYTES = 4 * 2**30  # of weights that are read to compare them
Entry = Mapping[str, Any]
_PROVENANCE = """hardware device dtype threads batch_size seed date plan group commit
    torch transformers python id""".split()
_LABELS = {"dtype": "Number format", "batch_size": "Batch size", "plan": "Study", "group": "Timed group"}


def card(run_cache: RunCache, run: str, sources: Mapping[str, str]) -> dict[str, Any]:
    """The card of the run with this id, or ValueError; `sources` are the checkpoints of the app by name."""
    entry, table = entry_of(run_cache.runs, run), run_cache.table()
    row = table[table["id"] == run].iloc[0].to_dict()
    batch = row.get("batch_size")
    shown = {
        "id": run,
        "model": called(row),
        "setting": words.joined(setting_words(row), "" if words.missing(batch) else f"batch size {int(batch)}"),
        "measures": [_measure(row, name) for name in words.MEASURES if not words.missing(row.get(name))],
        "facts": [*_facts(row)],
    }
    checkpoint, draft = named(entry["model"], sources), named(entry["draft"], sources)
    lacking = why_not(entry, checkpoint, draft)
    return shown | {
        "command": entry["command"],
        "choice": None if lacking else lane_choice(entry, row, checkpoint, draft),
        "lacking": lacking,
    }


def why_not(entry: Entry, checkpoint: str | None, draft: str | None) -> str:
    """One sentence why the app cannot decode as this run did; empty if it can."""
    for model, name, option in ((entry["model"], checkpoint, ""), (entry["draft"], draft, " as the draft")):
        if model is not None and name is None:
            return (
                f"The app has no checkpoint with the weights of {model['name']}{option} (fingerprint "
                f"{model['fingerprint'][:6]}…); start it with --checkpoint {model['name'].rsplit('/', 1)[-1]}=FOLDER."
            )
    return ""


def lane_choice(entry: Entry, row: words.Row, checkpoint: str | None, draft: str | None) -> dict[str, Any]:
    """The fields of a lane of Compare that decodes as this run did, at the run's threshold and not the slider's."""
    settings = DEFAULTS | entry["settings"]
    return {name: settings[name] for name in ("block_size", *METHOD_FIELDS)} | {
        "checkpoint": checkpoint,
        "decoder": entry["decoder"],
        "draft": draft,
        "follows": False,
        "threshold": settings["threshold"] if words.heeds_threshold(row) else None,
    }


def _measure(row: words.Row, name: str) -> dict[str, str]:
    label, factor, form, unit = words.MEASURES[name]
    value, *ends = (signed(each, form) for each in words.measure_values(row, name, factor))
    if name == "speedup" and not words.missing(row.get("over")):
        label = f"Against AR, measured in turn with it ({row['over']})"
    return {"label": label[0].upper() + label[1:], "value": value + unit, "interval": " to ".join(ends)}


def called(row: words.Row) -> str:
    """The title of its decoder, with its threshold and what it drafts with."""
    title, drafts = words.title_words(row), words.drafts_words(row)
    named = [f"{title} ({drafts})" if drafts else title, words.threshold_words(row)]
    return " at ".join(filter(None, named))


def setting_words(row: words.Row) -> str:
    """Model, decoder and threshold of a run in a line."""
    return words.joined(words.model_words(row), words.decoder_words(row), words.threshold_words(row))


def _facts(row: words.Row) -> Iterator[list[str]]:
    if not words.missing(row.get("n")):
        yield ["Problems", f"{words.counts_words(row)}: {', '.join(map(words.task_words, row['tasks']))}"]
    for name in _PROVENANCE:
        if not words.missing(row.get(name)):
            yield [_LABELS.get(name, name.capitalize()), _text(row[name])]


def _text(value: Any) -> str:
    return f"{int(value)}" if isinstance(value, float) and value == int(value) else str(value)


def entry_of(runs: RunStore, run: str) -> Entry:
    """The entry of the run with this id; ValueError if there is no such run."""
    for entry in runs.entries:
        if entry["id"] == run:
            return entry
    raise ValueError("There is no such run any more: choose one from the figure.")


def samples(runs: RunStore, entry: Entry, *, right: bool | None = None, first: int = 0) -> dict[str, Any]:
    """A few problems from number `first` on, the families in turn; if judged, optionally the right or wrong ones."""
    rows = runs.rows(entry["id"])
    if right is not None and is_judged(entry):
        rows = rows[rows["correct"] == right]
    order = rows.assign(turn=rows.groupby("task").cumcount(), place=rows["task"].map(list(entry["tasks"]).index))
    shown = order.sort_values(["turn", "place"]).iloc[first : first + PAGE]
    return {"total": len(rows), "samples": [_sample(entry, row) for row in shown.to_dict("records")]}


def _sample(entry: Entry, row: Mapping[str, Any]) -> dict[str, Any]:
    known = row["task"] in TASKS and not entry.get("harness")  # of a benchmark the app has no problems
    problem = numbered(row["task"], entry["seed"], row["number"]) if known else None
    return {
        "task": row["task"],
        "family": words.task_words(row["task"]),
        "number": int(row["number"]),
        "prompt": problem.prompt if problem else "",
        "answer": problems.known_answer(problem) if problem else "",
        "text": row["text"],
        "right": bool(row["correct"]) if is_judged(entry) else None,
        "tokens": int(row["tokens"]),
        "passes": int(row["passes"]),
        "cut": row["finish_reason"] == "length",
    }


def named(model: Mapping[str, Any] | None, sources: Mapping[str, str]) -> str | None:
    """The checkpoint with the weights of `model`, by fingerprint; by name if they are on the Hub or very large."""
    if model is None:
        return None
    known = {name: fingerprint(source) for name, source in sources.items()}
    found = (name for name, digest in known.items() if digest == model["fingerprint"])
    alike = (name for name, digest in known.items() if digest is None and _called(name, sources[name], model["name"]))
    return next(found, None) or next(alike, None)


def fingerprint(source: str) -> str | None:
    """The `fingerprint` of a model, as in the run store; None if its weights are on the Hub, or very large."""
    files = sorted(Path(source).expanduser().glob("*.safetensors"))
    known = tuple((file, file.stat().st_mtime_ns) for file in files)
    return _digest(known) if 0 < sum(file.stat().st_size for file in files) <= MOST_BYTES else None


@lru_cache(maxsize=64)
def _digest(files: tuple[tuple[Path, int], ...]) -> str:
    return weights_digest(file for file, _ in files)


def _called(name: str, source: str, wanted: str) -> bool:
    return wanted in (name, source) or Path(source).name == wanted.rsplit("/", 1)[-1]
