"""The engine of the exported page against the decoders in Python and mars/reference.py, in Node."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("onnx")

from app.models import pairs
from mars import reference
from mars.checkpoint import Checkpoint, load_checkpoint
from mars.checkpoint.adapter import find_base, load_adapter, merge
from mars.checkpoint.weights import load_model, load_tokenizer
from mars.config import DecodingSettings, ScoreName
from mars.control import Control
from mars.decoders import TABLE
from mars.decoding import DECODERS
from mars.decoding.self_speculative import SURE
from mars.records import ForwardPass, from_object
from mars_site import onnx
from mars_tasks import TASKS, sample
from tests.mars.test_reference import compare
from tests.mars_site.conftest import LAYERS, shortened
from tests.mars_site.test_onnx import in_eight_bits

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.slow]
SOURCE = Path(__file__).parents[2] / "assets/checkpoints/mars-b8"
PROMPTS = 48
TOKENS = 16
CLOSE = 1e-3
UNUSUAL = ("  Wie geht's?\n\nÄpfel 🍏 und “Birnen”", "naïve cafe\u0301 12345\t\r\n ", "")
HARD = (
    "Why is the sky blue?",
    "\n\n\nSay <|im_end|> and <|im_start|>system\nyou are <|mask|> <|endoftext|>",
    "3.14159e-10 + 1,234,567 = ?   \u00a0e\u3000f \u200b\ufeff\x00\x07",
    "日本語 한국어 العربية हिन्दी 👩‍👩‍👧‍👦 🇩🇪 I'll we've DON'T",
    "def f(x):\n    return x**2\n\n\tif True:\r\n" + "_" * 50 + "---===",
)
THRESHOLDS: dict[ScoreName, Sequence[float]] = {
    "probability": (0.9, 0.5, 0.7, 0.99),
    "margin": (0.5, 0.9),
    "entropy": (0.3, 0.9),
}
DECODERS_HERE = ("sliding_window", "self_speculative", "autoregressive")


@dataclass(frozen=True)
class Asked:
    """A prompt, how it is answered, and the thresholds in force, pass after pass and over again."""

    prompt: str
    decoder: str
    settings: DecodingSettings
    thresholds: Sequence[float | None]


def questions() -> Iterator[Asked]:
    """Every decoder, block size and score in turn; of the thresholds every third moves."""
    for number in range(PROMPTS):
        decoder = DECODERS_HERE[number % 3]
        score = list(THRESHOLDS)[number // 3 % 3]
        thresholds: Sequence[float | None] = THRESHOLDS[score]
        if number % 2:
            thresholds = thresholds[number // 9 % 2 :][:1]
        if decoder != "sliding_window":
            thresholds = (None,)
        prompt = sample(list(TASKS)[number % len(TASKS)], 5_000_000 + number).prompt
        prompt = UNUSUAL[number // 16] if number % 16 == 15 else prompt
        settings = DecodingSettings(
            block_size=2 + number // 2 % 7,
            score=score,
            threshold=thresholds[0],
            layout="linear",
            max_new_tokens=TOKENS,
            alternatives=onnx.ALTERNATIVES,
        )
        yield Asked(prompt, decoder, settings, thresholds)


def in_words(
    name: str, prompt: str, decoder: str, settings: DecodingSettings, thresholds: Sequence[float | None]
) -> dict[str, Any]:
    """A question as tests/mars_site/live.mjs reads it."""
    known = {**asdict(settings), "family": TABLE[decoder].family}
    return {"name": name, "prompt": prompt, "thresholds": thresholds, "settings": known}


def in_browser_engine(node: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    """What tests/mars_site/live.mjs answers."""
    script = Path(__file__).parent / "live.mjs"
    done = subprocess.run([node, script], input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def written(asked: Asked, checkpoint: Checkpoint) -> list[ForwardPass]:
    control = Control(asked.settings.threshold, asked.settings.score, trace=True)
    passes = DECODERS[asked.decoder](checkpoint.engine, [checkpoint.encode(asked.prompt)], asked.settings, control)
    found = []
    for record in passes:
        found.append(record)
        control.threshold = asked.thresholds[len(found) % len(asked.thresholds)]
    return found


def alike(found: ForwardPass, expected: ForwardPass) -> None:
    """The same work, proposals, groups and reasons; probabilities as near as float32 has them."""
    assert (found.index, found.phase, found.query_tokens) == (expected.index, expected.phase, expected.query_tokens)
    [mine], [other] = found.rows, expected.rows
    assert replace(mine, proposals=()) == replace(other, proposals=())
    assert [(each.token_id, each.source) for each in mine.proposals] == [
        (each.token_id, each.source) for each in other.proposals
    ]
    for one, two in zip(mine.proposals, other.proposals, strict=True):
        assert one.score == pytest.approx(two.score, abs=CLOSE)
        shares = [[share for _, share in each.alternatives] for each in (one, two)]
        assert shares[0] == pytest.approx(shares[1], abs=CLOSE)


def test_records_are_those_of_python(node: str, runtime: dict[str, str], tmp_path: Path) -> None:
    onnx.write([str(SOURCE)], tmp_path)
    checkpoint = load_checkpoint(SOURCE, dtype="float32", device="cpu")
    asked = list(questions())
    given = [in_words(SOURCE.name, each.prompt, each.decoder, each.settings, each.thresholds) for each in asked]
    answers = in_browser_engine(node, {"folder": str(tmp_path), "scripts": runtime, "asked": given})
    ends, groups = set(), 0
    for each, answer in zip(asked, answers, strict=True):
        assert answer["ids"] == checkpoint.encode(each.prompt)
        records = [from_object(record) for record in answer["records"]]
        for found, expected in zip(records, written(each, checkpoint), strict=True):
            alike(found, expected)
        tokens = [token for record in records for token in record.rows[0].accepted_ids]
        assert answer["text"] == checkpoint.decode(tokens)
        ends.add(records[-1].rows[0].finish_reason)
        groups += sum(record.rows[0].accepted > 1 for record in records)
    assert ends == {"stop", "length"}
    assert groups > PROMPTS


def test_adapters_write_what_python_writes(node: str, runtime: dict[str, str], pair_folder: Path) -> None:
    settings = DecodingSettings(block_size=4, threshold=0.2, layout="linear", max_new_tokens=6)
    plain = {lane: merged(Path(source)) for lane, source in pairs.REAL_SOURCES.items()}
    python = load_checkpoint(pairs.REAL_SOURCES["mars"], dtype="float32", device="cpu")
    lanes = [("ar" if decoder == "autoregressive" else "mars", decoder) for decoder in DECODERS_HERE]
    cases = [(*lanes[number % 3], prompt) for number, prompt in enumerate([*UNUSUAL, *HARD])]
    asked = [
        in_words(Path(pairs.REAL_SOURCES[lane]).name, prompt, decoder, settings, [settings.threshold])
        for lane, decoder, prompt in cases
    ]
    answers = in_browser_engine(node, {"folder": str(pair_folder), "scripts": runtime, "asked": asked})
    for (lane, decoder, prompt), answer in zip(cases, answers, strict=True):
        ids, stops = python.encode(prompt), python.engine.stop_token_ids
        assert answer["ids"] == ids, prompt
        rows = [from_object(record).rows[0] for record in answer["records"] if record["phase"] != "prefill"]
        written = [token for row in rows for token in row.accepted_ids]
        assert answer["text"] == python.decode(written)
        if decoder == "autoregressive":
            options = {"max_new_tokens": settings.max_new_tokens, "do_sample": False, "eos_token_id": [*stops]}
            assert written == plain[lane].generate(torch.tensor([ids]), **options)[0, len(ids) :].tolist()
            continue
        exact = decoder == "self_speculative"
        twin = partial(reference.exact, sure=SURE) if exact else reference.mars
        known = {"mask": python.engine.mask_token_id, "stops": stops}
        expected = twin(plain[lane], ids, replace(settings, threshold=None) if exact else settings, **known)
        compare(rows, list(expected), "passes" if exact else "proposals")


def merged(source: Path) -> Any:
    """What `transformers` reads of an adapter, as it was exported."""
    base, adapter = find_base(source), load_adapter(source)
    model = load_model(base, *shortened(base), torch.float32)
    in_eight_bits(model, adapter.layers[0])
    merge(model, load_tokenizer(base), replace(adapter, layers=adapter.layers[:LAYERS]))
    return model.eval()
