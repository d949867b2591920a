"""What somebody may put into a run file: the door says what is wrong, in one sentence, and never breaks."""

import json
import time
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.runs.run import MAX_BYTES, Run, RunFileError, read

REFUSAL = "This file cannot be opened as a run: "
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=30)
    | st.sampled_from(["\ud800", "x" * 300_000, "../../etc/passwd", "<script>", "\u202e", "1" * 50, 1e308, -1]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
Path = tuple[str | int, ...]


def refusal(source: str | bytes) -> str:
    """The sentence; fails when the file is accepted, or refused in another way."""
    with pytest.raises(RunFileError) as caught:
        read(source)
    sentence = str(caught.value)
    assert sentence.startswith(REFUSAL)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 400
    assert caught.value.__cause__ is None
    return sentence.removeprefix(REFUSAL)


def attempt(source: str) -> Run | str:
    """The run, or the sentence that refuses it."""
    try:
        return read(source)
    except RunFileError as error:
        return str(error)


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of everything inside a document."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*path, key)
        yield from places(inner, (*path, key))


def put(document: Any, path: Path, value: Any) -> Any:
    changed = deepcopy(document)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return changed


LANE: Path = ("lanes", 1)
ROW: Path = (*LANE, "records", 2, "rows", 0)
WRONG: list[tuple[Path, Any, str]] = [
    (("kind",), "something", "kind must be mars-lens-run, got 'something'"),
    (("schema",), 2, "schema must be 1, got 2"),
    (("id",), "../../x", "id must be 1 to 64 letters"),
    (("date",), "yesterday", "date must be in ISO 8601"),
    (("question", "prompt"), "\ud800", "the document must be valid Unicode"),
    (("question", "max_new_tokens"), 10**30, "question.max_new_tokens must be at most 1000000, got 1"),
    (("lanes",), [], "lanes must have at least 1 entry, got 0"),
    ((*LANE, "key"), "a", "each lane needs a key of its own"),
    ((*LANE, "key"), "A lane", "lanes[1].key must be 1 to 32 lower-case letters"),
    ((*LANE, "settings", "block_size"), 65, "lanes[1].settings: block_size must be between 1 and 64, got 65"),
    ((*LANE, "settings", "max_new_tokens"), 3, "tokens, and max_new_tokens allows 3"),
    ((*LANE, "settings", "luck"), 3, "lanes[1].settings.luck is unknown: there is no such field"),
    ((*LANE, "written"), [], "lanes[1]: written must have one entry for each of"),
    ((*LANE, "pieces"), {}, "lanes[1]: pieces must have the text of every token in the records, but lacks"),
    ((*LANE, "pieces"), {"-1": "x"}, "a key of lanes[1].pieces must be at least 0, got '-1'"),
    ((*LANE, "records"), [], "lanes[1]: records must have at least 1 entry, got 0"),
    ((*LANE, "records", 2, "index"), 0, "lanes[1]: records[2].index must be more than the one before, got 0"),
    ((*LANE, "records", 2, "rows"), [], "lanes[1]: records[2].rows must be the one row of this lane, got 0"),
    ((*ROW, "accepted"), 0, "lanes[1]: records[2]: a decode pass must accept at least one token, got 0"),
    ((*ROW, "start"), 99, "where the tokens before end, got 99"),
    ((*ROW, "threshold"), 1.5, "lanes[1]: records[2]: threshold must be between 0 and 1"),
    ((*ROW, "proposals", 0, "score"), 2, "lanes[1]: records[2]: a probability must be at most 1, got 2"),
    ((*ROW, "proposals", 0, "source"), "hearsay", "records[2].rows[0].proposals[0].source must be one of clean"),
    ((*ROW, "proposals", 0, "alternatives"), [[1, 7]], "proposals[0].alternatives[0][1] must be at most 1"),
    ((*ROW, "trace", "spans"), [], "trace: spans must be at least one, each with at least one of ids"),
    ((*ROW, "trace", "spans", 0, "after"), 0, "after must be a column before its span, which is column 0, got 0"),
    ((*ROW, "trace", "spans", 0, "ids"), [0] * 99, "lanes[1]: records[2].trace must have at most"),
    ((*ROW, "trace", "reasons"), [], "trace must have a column and a reason for each of"),
    ((*ROW, "trace", "columns", 0), 99, "trace: columns must be less than"),
]


@pytest.mark.parametrize(("path", "value", "reason"), WRONG, ids=[".".join(map(str, path)) for path, _, _ in WRONG])
def test_what_does_not_fit_is_named(document: Any, path: Path, value: Any, reason: str) -> None:
    assert reason in refusal(json.dumps(put(document, path, value)))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "the document is not JSON"),
        ("[]", "the document must be an object, got []"),
        ("{", "the document is not JSON"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        ("NaN", "the document must be an object, got nan"),
        ("9" * 5000, "the document is not JSON (number out of range"),
        ("[" * 100_000, "the document has lists that are nested too deeply"),
        (" " * (MAX_BYTES + 1), "it has 3,000,001 bytes, and at most 3,000,000 are read"),
    ],
    ids=["empty", "list", "cut", "binary", "nan", "long number", "deep", "large"],
)
def test_what_is_no_document_is_refused(source: str | bytes, reason: str) -> None:
    assert reason in refusal(source)


def test_fields_without_a_default_are_required(document: Any) -> None:
    lane, row = ("lanes", 0), ("lanes", 0, "records", 1, "rows", 0)
    proposal = (*row, "proposals", 0)
    parents: list[Path] = [(), ("question",), lane, (*lane, "records", 1), row, proposal]
    parents += [(*row, "trace"), (*row, "trace", "spans", 0)]
    optional = {("title", ()), ("note", ()), ("problem", ("question",)), ("answer_prefix", ("question",))}
    optional |= {
        ("finish_reason", row),
        ("trace", row),
        ("alternatives", proposal),
        ("earlier", lane),
        ("block", (*row, "trace")),
    }
    for parent in parents:
        for name in [path[-1] for path in places(document) if path[:-1] == parent]:
            changed = deepcopy(document)
            holder = changed
            for key in parent:
                holder = holder[key]
            del holder[name]
            if (name, parent) in optional:
                assert read(json.dumps(changed)).lanes
            else:
                assert str(name) in refusal(json.dumps(changed))


@pytest.fixture(scope="module")
def beginning(text: str) -> Any:
    """One lane and its first passes: a run with everything in it, and quick to copy."""
    document = json.loads(text)
    lane = document["lanes"].pop()
    lane["records"] = lane["records"][:3]
    lane["written"] = lane["written"][: sum(record["rows"][0]["accepted"] for record in lane["records"])]
    document["lanes"] = [lane]
    return document


@given(data=st.data())
def test_anything_is_read_or_refused_with_a_sentence(beginning: Any, data: st.DataObject) -> None:
    assert read(json.dumps(beginning)).lanes
    path = data.draw(st.sampled_from(list(places(beginning))))
    changed = json.dumps(put(beginning, path, data.draw(ANYTHING)))
    outcome = attempt(changed)
    assert isinstance(outcome, Run) or (len(outcome) < 400 and "\n" not in outcome)


@given(st.binary(max_size=200) | st.text(max_size=200) | ANYTHING.map(json.dumps))
def test_noise_is_refused(source: str | bytes) -> None:
    refusal(source)


ROW = ("lanes", 1, "records", 1, "rows")
BULKY: dict[str, tuple[Path, Any]] = {
    "texts": (("lanes", 1, "written"), [1] * 400_000),
    "records": (("lanes", 1, "records"), [{}] * 350_000),
    "rows": (ROW, [{}] * 350_000),
    "proposals": ((*ROW, 0, "proposals"), [{}] * 350_000),
    "alternatives": ((*ROW, 0, "proposals", 0, "alternatives"), [[]] * 350_000),
    "lanes": (("lanes",), [1] * 400_000),
    "settings": (("lanes", 1, "settings"), {f"x{number}": 1 for number in range(200_000)}),
    "pieces": (("lanes", 1, "pieces"), {str(number): 1 for number in range(200_000)}),
}


@pytest.mark.parametrize("kind", BULKY)
def test_the_first_error_of_a_list_ends_it(document: Any, kind: str) -> None:
    *path, last = BULKY[kind][0]
    place = document
    for step in path:
        place = place[step]
    place[last] = BULKY[kind][1]
    text = json.dumps(document)
    read_again = time.process_time()
    with pytest.raises(RunFileError):
        read(text)
    assert time.process_time() - read_again < 2.0  # at twice the length 0.2 s on an idle core; before, 26 s and 4 GB
