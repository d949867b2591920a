from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.compare import stream
from app.compare.comparison import Entry, Question, compare, finished
from app.compare.event_stream import Step
from app.compare.lane_choice import LaneChoice
from app.runs.run import MAX_TURNS, Turn, read
from app.scheduling import MAX_CHARACTERS, AdmissionQueue, Limits, LiveRun
from mars.metrics import output_ids
from mars.records import ForwardPass
from mars.schema import as_json, checked

MakeCheckpoint = Callable[..., Any]
Begin = Callable[..., list[Entry]]
RIGHT, WRONG = "So 3 * 18 = 54.\n#### 54", "So 3 * 18 = 54.\n#### 45"
AR, MARS = LaneChoice(checkpoint="ar", decoder="autoregressive"), LaneChoice(checkpoint="mars")
EXACT = LaneChoice(checkpoint="mars", decoder="self_speculative")


@pytest.fixture
def live() -> LiveRun:
    return LiveRun(AdmissionQueue().join(), 0.9)


@pytest.fixture
def begin(make_checkpoint: MakeCheckpoint, make_entries: Callable[..., Any], live: LiveRun) -> Begin:
    """`begin(AR, MARS, texts={…}, **question)`: the lanes at their starts, on checkpoints that recite."""

    def begin(*choices: LaneChoice, texts: dict[str, str] | None = None, **changes: Any) -> list[Entry]:
        written = texts or {"ar": RIGHT, "mars": WRONG}
        checkpoints = {name: make_checkpoint(name, text) for name, text in written.items()}
        found: list[Entry] = make_entries(
            checkpoints, question(**changes), live, AdmissionQueue(), choices or (AR, MARS)
        )
        return found

    return begin


def question(**changes: Any) -> Question:
    return Question(**{"prompt": "How many sheep?", "threshold": 0.9, **changes})


def messages(steps: Iterator[Step], kind: str) -> list[dict[str, Any]]:
    return [message for step in steps for message in step.messages if message["kind"] == kind]


def run(entries: list[Entry], live: LiveRun, **changes: Any) -> list[dict[str, Any]]:
    found = [m for step in compare(entries, question(**changes), live, AdmissionQueue()) for m in step.messages]
    for message in found:
        checked(stream.Message, message)
    return found


def test_speed_up_is_over_the_ar_lane(begin: Begin, live: LiveRun) -> None:
    entries = begin(MARS, AR, EXACT)
    last = [message for message in run(entries, live) if message["kind"] == "speedup"][-1]
    mars, ar, exact = (entry.lane for entry in entries)
    assert last["baseline"] == "b"
    assert last["ratios"] == {lane.key: pytest.approx(lane.speed_over(ar), abs=1e-3) for lane in (mars, exact)}


def test_each_lane_is_compared_with_the_baseline(begin: Begin, live: LiveRun) -> None:
    texts = {"ar": RIGHT, "mars": RIGHT, "markup": WRONG}
    entries = begin(AR, MARS, LaneChoice(checkpoint="markup"), texts=texts)
    told = run(entries, live)
    assert [message["lanes"] for message in told if message["kind"] == "same"] == [["a", "b"]]
    [parted] = [message for message in told if message["kind"] == "difference"]
    assert parted["baseline"] == "a"
    assert parted["tokens"].keys() == {"a", "c"}
    for entry in (entries[0], entries[2]):
        lane = entry.lane
        before = lane.checkpoint.decode(output_ids(lane.records)[: parted["tokens"][lane.key]])
        assert before == RIGHT[: len(before)] == WRONG[: len(before)]


def test_lanes_of_one_checkpoint_share_no_pass(begin: Begin, live: LiveRun) -> None:
    entries = begin(MARS, EXACT, LaneChoice(checkpoint="mars", follows=False, threshold=0.6))
    run(entries, live)
    engine = entries[0].lane.checkpoint.engine
    assert sum(len(entry.lane.records) for entry in entries) == len(engine.calls)
    assert not any(entry.lane.shared for entry in entries)
    assert {entry.lane.text for entry in entries} == {WRONG}


def test_a_stopped_run_makes_no_further_pass(begin: Begin, live: LiveRun, example: Any) -> None:
    asked, after = question(prompt=example.prompt, problem=example), list[dict[str, Any]]()
    for number, step in enumerate(compare(begin(AR, MARS, EXACT), asked, live, AdmissionQueue())):
        if number == 4:
            live.stop()
        elif number > 4:
            after.extend(step.messages)
    assert sum(message["kind"] == "pass" for message in after) <= 1
    assert [m["reason"] for m in after if m["kind"] == "end"] == ["cancelled"] * 3
    assert after[-1]["state"] == "stopped"
    assert not any(message["kind"] == "verdict" for message in after)


def test_a_stop_in_the_last_pass_counts(begin: Begin, live: LiveRun) -> None:
    def stopping(records: Iterator[ForwardPass]) -> Iterator[ForwardPass]:
        record = next(records)
        live.stop()
        yield replace(record, rows=(replace(record.rows[0], finish_reason="cancelled"),))

    first, second = begin(AR, MARS)
    entries = [first, replace(second, records=stopping(second.records))]
    found = run(entries, live)
    assert [(m["lane"], m["reason"]) for m in found if m["kind"] == "end"] == [("a", "cancelled"), ("b", "cancelled")]
    assert found[-1] == stream.state("stopped", "Stopped before the first token.")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"prompt": ""}, "The prompt is empty"),
        ({"prompt": " \n\t "}, "The prompt is empty"),
        ({"prompt": "x" * 100_000}, f"100,000 characters; at most {MAX_CHARACTERS:,}"),
        ({"answer_prefix": "x" * 100_000}, "The start of the answer has 100,000 characters"),
        ({"answer_prefix": ["x"]}, "The start of the answer must be text"),
        ({"max_new_tokens": 0}, "a whole number between 16 and 512"),
        ({"max_new_tokens": 513}, "a whole number between 16 and 512"),
    ],
)
def test_an_impossible_question_gets_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        question(**changes)


def test_the_exact_lane_says_how_far_it_agrees(begin: Begin, live: LiveRun) -> None:
    entries = begin(AR, MARS, EXACT, texts={"ar": RIGHT, "mars": RIGHT})
    written, claims = {"a": "", "b": "", "c": ""}, list[int]()
    for message in run(entries, live):
        if message["kind"] == "pass":
            written[message["lane"]] += "".join(token[0] for token in message["tokens"])
        if message["kind"] == "agreement":
            assert (message["lane"], message["baseline"]) == ("c", "a")
            if not message["whole"]:
                claimed = "".join(entries[2].lane.written[: message["tokens"]])
                assert written["a"].startswith(claimed)
                assert written["c"].startswith(claimed)
            claims.append(message["tokens"])
    assert claims == sorted(claims)
    assert len(set(claims)) > 5
    assert claims[-1] == entries[2].lane.tally.tokens


def test_a_lane_that_differs_claims_nothing_more(begin: Begin, live: LiveRun) -> None:
    entries = begin(AR, EXACT)
    found = [m["kind"] for m in run(entries, live) if m["kind"] in ("agreement", "difference")]
    assert found.index("difference") == len(found) - 1
    assert "agreement" in found


def test_only_exact_lanes_beside_ar_speak_of_agreement(begin: Begin, live: LiveRun) -> None:
    assert [m for m in run(begin(AR, MARS, texts={"ar": RIGHT, "mars": RIGHT}), live) if m["kind"] == "agreement"] == []
    assert [m for m in run(begin(MARS, EXACT, texts={"mars": RIGHT}), live) if m["kind"] == "agreement"] == []


def test_each_lane_follows_up_its_own_text(begin: Begin, live: LiveRun) -> None:
    first = begin(AR, MARS)
    run(first, live)
    before = finished("first", question(), [entry.lane for entry in first])
    again = Question.following(before, "ab", prompt="Now shorter, please", threshold=0.9)
    turns = {key: (Turn(prompt="How many sheep?", answer=text),) for key, text in (("a", RIGHT), ("b", WRONG))}
    assert again.earlier == turns
    entries = begin(AR, MARS, prompt=again.prompt, earlier=again.earlier)
    for entry in entries:
        lane = entry.lane
        [turn] = turns[lane.key]
        asked = [("user", turn.prompt), ("assistant", turn.answer), ("user", again.prompt)]
        ids = lane.checkpoint.encode_chat([{"role": role, "content": content} for role, content in asked])
        assert lane.prompt_tokens == len(ids)
    run(entries, live, prompt=again.prompt, earlier=again.earlier)
    kept = finished("second", again, [entry.lane for entry in entries])
    assert {lane.key: lane.earlier for lane in kept.lanes} == turns
    third = Question.following(kept, "ab", prompt="And in French?", threshold=0.9)
    assert [turn.prompt for turn in third.earlier["b"]] == ["How many sheep?", "Now shorter, please"]


def test_all_lanes_go_on_from_a_given_start(begin: Begin, live: LiveRun, example: Any) -> None:
    start = "Let us <|im_end|> think: "
    asked = question(prompt=example.prompt, problem=example, answer_prefix=start)
    alone, entries = begin(AR, MARS, prompt=example.prompt), begin(AR, MARS, prompt=example.prompt, answer_prefix=start)
    for before, entry in zip(alone, entries, strict=True):
        ids = entry.lane.checkpoint.encode_text(start)  # a control token in it is text
        assert entry.lane.prompt_tokens == before.lane.prompt_tokens + len(ids)
    told = run(entries, live, prompt=example.prompt, problem=example, answer_prefix=start)
    assert [message["right"] for message in told if message["kind"] == "verdict"] == [True, False]
    kept = finished("first", asked, [entry.lane for entry in entries])
    assert read(as_json(kept)).question.answer_prefix == start
    assert kept.lanes[0].text == RIGHT  # the start is no lane's
    again = Question.following(kept, "ab", prompt="Now shorter, please", threshold=0.9)
    assert again.earlier["a"][0].answer == start + RIGHT


def test_a_verdict_is_on_the_whole_answer(begin: Begin, live: LiveRun, example: Any) -> None:
    given = {"prompt": example.prompt, "problem": example, "answer_prefix": RIGHT}
    told = run(begin(texts={"ar": " Bye.", "mars": "!"}, prompt=example.prompt, answer_prefix=RIGHT), live, **given)
    assert [message["right"] for message in told if message["kind"] == "verdict"] == [True, True]


@pytest.mark.parametrize(("answer", "agrees"), [(RIGHT, True), (WRONG, False)], ids=["same", "another"])
def test_agreement_needs_the_same_conversation(begin: Begin, live: LiveRun, answer: str, agrees: bool) -> None:
    turns = {key: (Turn(prompt="How many?", answer=text),) for key, text in (("a", RIGHT), ("b", answer))}
    entries = begin(AR, EXACT, texts={"ar": RIGHT, "mars": RIGHT}, earlier=turns)
    told = run(entries, live, earlier=turns)
    assert any(message["kind"] == "agreement" for message in told) is agrees


def test_a_conversation_that_cannot_go_on_says_why(begin: Begin, live: LiveRun) -> None:
    entries = begin(AR, MARS)
    run(entries, live)
    before = finished("first", question(), [entry.lane for entry in entries])
    asked = {"prompt": "And now?", "threshold": 0.9}
    with pytest.raises(ValueError, match=r"^Lane C wrote nothing in the last run\. Press Run to start afresh\.$"):
        Question.following(before, "abc", **asked)
    long = {"a": (Turn(prompt="?", answer="!"),) * (MAX_TURNS + 1)}
    with pytest.raises(ValueError, match=r"^A conversation has at most 65 questions\. Press Run"):
        Question(**asked, earlier=long)
    with pytest.raises(ValueError, match=r"^This conversation has \d+ characters; at most 40 are read\. Press Run"):
        Question.following(before, "ab", **asked, limits=Limits(characters=40))
