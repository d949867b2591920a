import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.api import Answer, GenerateRequest, generated
from app.compare.runner import Runner
from app.scheduling import Limits
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.metrics import output_ids
from mars.records import from_object

MakeRunner = Callable[..., Runner]
USUAL: dict[str, Any] = {
    "prompt": "How many sheep?",
    "checkpoint": "mars",
    "decoder": "sliding_window",
    "threshold": 0.9,
    "block_size": None,
    "max_new_tokens": 192,
    "seed": 0,
    "draft": None,
}


def want(settings: object = None, **changes: Any) -> GenerateRequest:
    return GenerateRequest.of(Limits(), {**USUAL, **changes}, settings)


def answers(runner: Runner, wanted: GenerateRequest, session: str = "me") -> list[Answer]:
    """All that comes, with the fields that docs/api.md names."""
    *progress, whole = generated(runner, session, wanted)
    told = {"state", "sentence"}
    assert all(answer.keys() in (told, told | {"text", "counts"}) for answer in progress)
    further = {"finish_reason", "settings", "checkpoint", "decoder", "prompt_tokens", "records"}
    assert whole.keys() == told | {"text", "counts"} | further
    assert whole["counts"].keys() == {"tokens", "passes", "tokens_per_forward", "seconds", "tokens_per_second"}
    return [*progress, whole]


@pytest.mark.parametrize("decoder", sorted(set(DECODERS) - {"speculative"}))
def test_the_answer_is_what_the_decoder_writes(make_runner: MakeRunner, decoder: str) -> None:
    runner = make_runner()
    checkpoint = runner.models.get("mars")
    found = answers(runner, want({"layout": "quadratic"}, decoder=decoder))[-1]
    settings = DecodingSettings(block_size=8, threshold=0.9, layout="quadratic")
    alone = list(DECODERS[decoder](checkpoint.engine, [checkpoint.encode(USUAL["prompt"])], settings))
    assert found["state"] == "done"
    assert found["finish_reason"] == "stop"
    assert found["text"] == checkpoint.decode(output_ids(alone))
    assert [from_object(json.loads(json.dumps(record))).rows for record in found["records"]] == [
        record.rows for record in alone
    ]
    assert found["settings"]["block_size"] == 8
    assert found["counts"]["tokens"] == len(output_ids(alone))


def test_an_entropy_threshold_frees_its_place(make_runner: MakeRunner) -> None:
    runner = make_runner()
    assert answers(runner, want({"score": "entropy"}, threshold=2.0))[-1]["settings"]["threshold"] == 2.0
    assert runner.queue.counts()["active"] == 0


@pytest.mark.parametrize(
    ("settings", "changes", "sentence"),
    [
        (None, {"prompt": ""}, "The prompt is empty"),
        (None, {"checkpoint": {"path": "/etc"}}, "checkpoint must be text"),
        (None, {"max_new_tokens": 10**9}, "between 16 and 512"),
        (None, {"threshold": float("nan")}, "settings: threshold must be a finite number"),
        (None, {"block_size": 0}, "block_size must be between 1 and 64"),
        ({"temperature": 10**400}, {}, "settings: temperature must be a finite number"),
        ({"layout": "round"}, {}, "layout must be one of"),
        ({"magic": 1}, {}, "settings: magic is unknown"),
        ({"seed": 1}, {}, "settings must not repeat seed"),
        ("temperature", {}, "settings must be an object"),
    ],
)
def test_what_cannot_be_asked_for_gets_a_sentence(settings: Any, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        want(settings, **changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"checkpoint": "/etc"}, "There is no checkpoint '/etc' here"),
        ({"checkpoint": "broken"}, "config.json of broken is missing"),
        ({"decoder": "magic"}, "must be one of autoregressive, .*, got 'magic'"),
        ({"checkpoint": "ar"}, "not trained to fill masks"),
        ({"decoder": "speculative"}, "needs a second, smaller checkpoint"),
    ],
)
def test_what_cannot_run_frees_its_place(make_runner: MakeRunner, changes: dict[str, Any], sentence: str) -> None:
    runner = make_runner(places=1)
    with pytest.raises(ValueError, match=sentence):
        answers(runner, want(**changes))
    assert runner.queue.counts()["active"] == 0
    assert not runner.sessions.live("me")


def clock() -> Callable[[], float]:
    """A clock by which every look takes a second."""
    ticks = iter(range(10**6))
    return lambda: float(next(ticks))


def test_the_text_so_far_is_told(make_runner: MakeRunner) -> None:
    found = list(generated(make_runner(), "me", want(), clock()))
    running = [answer["text"] for answer in found if answer["state"] == "running"]
    assert len(running) > 2
    assert all(found[-1]["text"].startswith(text) for text in running)
    assert not any("records" in answer for answer in found[:-1])


def test_a_caller_who_goes_frees_the_place(make_runner: MakeRunner) -> None:
    runner = make_runner(places=1)
    running = generated(runner, "me", want(), clock())
    while next(running)["state"] != "running":
        pass
    assert runner.queue.counts()["active"] == 1
    running.close()
    assert runner.queue.counts()["active"] == 0
    assert not runner.sessions.live("me")


def test_a_run_waits_in_line_and_says_so(make_runner: MakeRunner) -> None:
    runner = make_runner(places=1)
    first, second = (generated(runner, name, want(), clock()) for name in "ab")
    next(first)
    assert _until(second, "queued")["sentence"] == "Waiting for the device: 1 run is ahead of yours."
    assert list(first)[-1]["state"] == "done"
    assert list(second)[-1]["state"] == "done"


def test_a_session_has_one_run(make_runner: MakeRunner) -> None:
    runner = make_runner(places=1, line=1)
    first = generated(runner, "a", want(), clock())
    next(first)
    with pytest.raises(ValueError, match="has a run already"):
        next(generated(runner, "a", want()))
    second = generated(runner, "b", want(), clock())
    next(second)
    with pytest.raises(ValueError, match=r"The app is busy and its queue is full \(1 waiting\)"):
        next(generated(runner, "c", want()))
    assert list(first)[-1]["state"] == "done"


def test_a_run_that_is_stopped_says_so(make_runner: MakeRunner) -> None:
    runner = make_runner()
    running = generated(runner, "me", want(), clock())
    _until(running, "running")
    runner.sessions.live("me").stop()
    last = list(running)[-1]
    assert last["state"] == "stopped"
    assert last["finish_reason"] == "cancelled"


def test_an_error_of_the_device_is_a_sentence(make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = make_runner()

    def full(*_: Any, **__: Any) -> Any:
        raise RuntimeError("CUDA out of memory. /srv/secret")

    with monkeypatch.context() as patch:
        patch.setattr(runner.models.get("mars").engine, "open", full)
        with pytest.raises(ValueError, match=r"^The device has no memory left for this run\.") as caught:
            answers(runner, want())
    assert "secret" not in str(caught.value)
    assert answers(runner, want())[-1]["state"] == "done"


def _until(running: Iterator[Answer], state: str) -> Answer:
    for answer in running:
        if answer["state"] == state:
            return answer
    raise AssertionError(f"the run never was {state}")
