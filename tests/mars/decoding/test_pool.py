"""A running pool: rows of all methods join and leave, and each writes exactly what it writes alone."""

import random
from dataclasses import replace

import pytest

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import METHODS, pool
from mars.decoding.method import Row
from mars.decoding.policy import Policy
from mars.decoding.pool import Pool
from mars.decoding.trees import ROOT
from mars.metrics import output_ids
from mars.records import ForwardPass, RowPass
from tests.readers import MASK, STOP, VOCAB, Answers
from tests.scripted import ReadingModel, ScriptedRows, parts

CAPACITY = 120
ANSWERS = Answers(seed=3, foresight=5, stops=1)
LAYOUTS = ("linear", "quadratic")


def model(*, static: bool = False) -> ReadingModel:
    return ReadingModel(
        ANSWERS, vocab_size=VOCAB, mask_token_id=MASK, stop_token_ids=frozenset({STOP}), static_shapes=static
    )


def row_of(
    engine: ReadingModel,
    number: int,
    prompt: list[int],
    decoder: str = "sliding_window",
    control: Control | None = None,
    **options: object,
) -> Row:
    settings = DecodingSettings(**{"block_size": 4, "threshold": 0.5, "max_new_tokens": 24, **options})
    control = control or Control(settings.threshold, settings.score)
    method = METHODS[decoder](engine, settings)
    return Row(number=number, prompt=prompt, method=method, settings=settings, control=control)


def fresh(row: Row) -> Row:
    """The same row before it has written anything."""
    control = Control(row.settings.threshold, row.settings.score)
    begun = {"written": 0, "gained": 0, "drafted": 0, "pending": 1, "unread": 0, "reading": False}
    return replace(row, **begun, proposed=(), scores=(), plan=ROOT, response=[], copies=None, control=control)


def drain(running: Pool) -> list[ForwardPass]:
    return list(iter(running.step, None))


def alone(row: Row, *, static: bool = False) -> list[RowPass]:
    running = Pool(model(static=static), 1, CAPACITY)
    running.join(fresh(row))
    return parts(drain(running), row.number)


def random_row(engine: ReadingModel, number: int, chance: random.Random) -> Row:
    return row_of(
        engine,
        number,
        [chance.randrange(3, 11) for _ in range(chance.choice((1, 1, 2, 5, 9, 20)))],
        chance.choice(list(METHODS)),
        block_size=chance.choice((2, 3, 4)),
        threshold=chance.choice((None, 0.0, 0.5, 0.7)),
        max_new_tokens=chance.choice((1, 3, 12, 24)),
        extra_proposal=chance.random() < 0.5,
        layout=chance.choice(LAYOUTS),
        temperature=chance.choice((0.0, 0.0, 0.8)),
        top_p=chance.choice((1.0, 0.9)),
        seed=chance.randrange(100),
        draft_tokens=chance.choice((2, 4)),
    )


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_rows_that_join_and_leave_write_the_same(
    seed: int, static: bool, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(pool, "PREFILL_CHUNK", chance.choice((2, 3, 5, 512)))
    monkeypatch.setattr(pool, "BESIDE_CHUNK", chance.choice((2, 7, 64)))
    monkeypatch.setattr(pool, "FEWEST_BESIDE", 2)
    monkeypatch.setattr(pool, "SHORTEST_SHARED", 2)
    engine = model(static=static)
    running = Pool(engine, chance.randrange(1, 5), CAPACITY, beside=beside)
    coming = [random_row(engine, number, chance) for number in range(12)]
    for row in coming[::2] if beside else ():
        row.prompt = [*coming[0].prompt[: chance.randrange(20)], *row.prompt]
    rows = {row.number: row for row in coming}
    stopped: set[int] = set()
    records: list[ForwardPass] = []
    while coming or running.rows:
        for _ in range(min(chance.choice((0, 0, 1, 2, 5)), len(coming))):
            running.join(coming.pop())
        if chance.random() < 0.03:
            number = chance.choice(list(rows))
            rows[number].control.stop()
            stopped.add(number)
        record = running.step()
        records += [] if record is None else [record]
    assert len(records) == len(engine.calls)
    assert [record.index for record in records] == list(range(len(records)))
    for number, row in rows.items():
        expected, found = alone(row, static=static), parts(records, number)
        if number in stopped:
            assert (
                output_ids(records, number)
                == [token for part in expected for token in part.accepted_ids][: row.written]
            )
        else:
            assert found == expected


def test_a_long_prompt_is_read_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PREFILL_CHUNK", 4)
    engine = model()
    running = Pool(engine, 3, CAPACITY)
    rows = [row_of(engine, number, [3 + number] * length) for number, length in enumerate((11, 3, 6))]
    for row in rows:
        running.join(row)
    records = drain(running)
    assert [record.phase for record in records[:4]] == ["prefill"] * 3 + ["decode"]
    assert [record.query_tokens for record in records[:3]] == [4, 4 + 3, 2 + 2 + 2]
    assert [[part.row for part in record.rows] for record in records[:3]] == [[0], [0, 2], [0, 1, 2]]
    for row in rows:
        assert parts(records, row.number) == alone(row)


def test_stopped_rows_are_not_counted_as_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, counted = model(), []
    policy = Policy(engine)
    monkeypatch.setattr(policy, "plan", lambda rows, **load: counted.append(load["waiting"]))
    running = Pool(engine, 1, CAPACITY, policy=policy)
    rows = [row_of(engine, number, [3 + number]) for number in range(4)]
    for row in rows:
        running.join(row)
    running.step()
    for row in rows[1:3]:
        row.control.stop()
    running.step()
    assert counted == [3, 1]


@pytest.mark.parametrize("decoder", list(METHODS))
def test_decode_keeps_its_places_full(decoder: str) -> None:
    """More prompts than places: each is written as with a place of its own, and a free place is taken at once."""
    engine = model()
    settings = DecodingSettings(block_size=4, threshold=0.5, max_new_tokens=24, layout="linear")
    prompts = [[3 + number % 8] * (1 + number % 5) for number in range(9)]
    method = METHODS[decoder](engine, settings)
    control = Control(settings.threshold)
    found, apart = (list(pool.decode(engine, prompts, settings, control, method, n)) for n in (3, None))
    assert all(parts(found, row) == parts(apart, row) for row in range(len(prompts)))
    assert max(len(record.rows) for record in found) == 3
    assert max(len(record.rows) for record in apart) == len(prompts)
    ended = [part.row for record in found for part in record.rows if part.finish_reason]
    assert sorted(ended) == list(range(len(prompts)))
    unfinished = 0
    for record in found:
        unfinished = max(unfinished, *(part.row for part in record.rows))
        assert unfinished < 3 + len(ended)
    with pytest.raises(ValueError, match="places must be >= 1, got 0"):
        next(pool.decode(engine, prompts, settings, control, method, 0))


@pytest.mark.parametrize("decoder", METHODS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_static_shapes_keep_windows_alike(decoder: str, layout: str) -> None:
    found = {}
    for static in (False, True):
        engine = model(static=static)
        running = Pool(engine, 3, CAPACITY)
        for number in range(3):
            running.join(row_of(engine, number, [3 + number] * (1 + number), decoder, layout=layout))
        found[static] = drain(running)
        widths = {len(call.ids[0]) for call in engine.calls if call.keep}
        assert len(widths) == 1 or not static
        assert len({call.keep for call in engine.calls if call.keep}) == 1 or not static
    for number in range(3):
        # Where columns are free, drafts are verified that are left out elsewhere: other passes, one text.
        assert output_ids(found[True], number) == output_ids(found[False], number)
        fewer = decoder == "prompt_lookup" or (layout == "linear" and decoder in ("self_speculative", "relaxed"))
        if not fewer:
            assert parts(found[True], number) == parts(found[False], number)


def test_thresholds_are_of_the_row_and_may_change() -> None:
    """One-token mode beside 0.0, and a row whose threshold changes after every pass."""
    engine = model()
    running = Pool(engine, 3, CAPACITY)
    controls = [Control(None), Control(0.0), Control(0.0)]
    for number, control in enumerate(controls):
        running.join(row_of(engine, number, [3, 4 + number], control=control, max_new_tokens=12))
    records = [running.step()]
    for threshold in (None, 0.0, None, 0.0):
        controls[2].threshold = threshold
        record = running.step()
        assert record is not None
        records.append(record)
        for part in record.rows:
            assert part.threshold == (None, 0.0, threshold)[part.row]
            if part.threshold is None:
                assert (part.accepted, len(part.proposals)) == (1, 1)
            elif part.finish_reason is None:
                assert part.accepted == 4


@pytest.mark.parametrize("warming", [False, True])
def test_passes_that_warm_up_teach_no_times(warming: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScriptedRows, "warming", warming)
    engine = model()
    policy = Policy(engine)
    running = Pool(engine, 1, CAPACITY, policy=policy)
    running.join(row_of(engine, 0, [4, 5], "self_speculative", layout="auto", max_new_tokens=40))
    drain(running)
    assert policy.times.knows(1) != warming


def test_passes_are_measured_before_any_request() -> None:
    engine = model()
    policy = Policy(engine)
    running = Pool(engine, 1, CAPACITY, policy=policy)
    running.prepare(METHODS["autoregressive"](engine, DecodingSettings()), None)
    assert not policy.times.knows(1), "nothing adapts"
    running.prepare(METHODS["self_speculative"](engine, DecodingSettings(layout="auto")), None)
    assert policy.times.knows(1)
    assert running.rows == 0
