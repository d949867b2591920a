"""Lanes whose model is elsewhere: the same tokens and text as with the checkpoint here, and plain words where not."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest

from app.compare import starting
from app.compare.lane_choice import LaneChoice
from app.compare.lane_request import comparable, requested, why_not
from app.models.placement import Loader
from app.scheduling import AdmissionQueue
from mars.checkpoint import Checkpoint, CheckpointError
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS
from mars.metrics import output_ids
from mars.serve import remote

TEXT = "Tom has 3 apples and buys 4. How many apples has Tom?"
SETTINGS = DecodingSettings(max_new_tokens=24, block_size=8)


@pytest.fixture(scope="module")
def far(served: Any) -> remote.RemoteCheckpoint:
    return Loader("cpu")(f"{served.url}/v1")


def test_it_encodes_and_decodes_like_the_checkpoint(far: remote.RemoteCheckpoint, checkpoint: Checkpoint) -> None:
    turns = [{"role": "user", "content": "Hi <|im_end|>"}, {"role": "assistant", "content": "Hö"}]
    assert far.encode(TEXT) == checkpoint.encode(TEXT)
    assert far.encode_chat(turns) == checkpoint.encode_chat(turns)
    ids = checkpoint.encode(TEXT)
    assert far.decode(ids) == checkpoint.decode(ids)
    assert (far.name, far.block_size, far.dtype) == ("mars-b8", 8, checkpoint.dtype)
    assert far.supports_masks
    assert far.engine.stop_token_ids == checkpoint.engine.stop_token_ids
    assert far.place.startswith("127.0.0.1:")


@pytest.mark.parametrize(("decoder", "temperature"), [("self_speculative", 0.0), ("sliding_window", 0.8)])
def test_records_come_from_there(
    far: remote.RemoteCheckpoint, checkpoint: Checkpoint, decoder: str, temperature: float
) -> None:
    settings = replace(SETTINGS, temperature=temperature, seed=5)
    control = Control(settings.threshold)
    found = list(remote.records(far, decoder, far.encode(TEXT), settings, control))
    own = list(DECODERS[decoder](checkpoint.engine, [checkpoint.encode(TEXT)], settings, Control(settings.threshold)))
    assert output_ids(found) == output_ids(own)
    assert found[-1].rows[0].finish_reason == own[-1].rows[0].finish_reason
    assert all(record.seconds > 0 for record in found)


def test_a_lane_of_the_page_writes_there(far: remote.RemoteCheckpoint, checkpoint: Checkpoint) -> None:
    """Its records come from the endpoint, and the page says where that is and what it cannot be asked for."""
    ids = starting.prompt_ids(far, TEXT, SETTINGS.max_new_tokens)
    found = list(starting.start(far, "self_speculative", ids, SETTINGS, Control(None), 4))
    own = list(DECODERS["autoregressive"](checkpoint.engine, [checkpoint.encode(TEXT)], SETTINGS))
    assert output_ids(found) == output_ids(own)
    assert not starting.is_shared(iter(found))
    [request] = requested([LaneChoice(checkpoint="there")])
    assert far.place in str(replace(request, checkpoint=far).card())
    assert why_not(LaneChoice(checkpoint="there", layout="tree", decoder="self_speculative"), far) is None
    elsewhere = replace(far, address="http://cuda:8000")
    assert comparable(far, far)
    assert not comparable(far, elsewhere)
    with starting.device_lock(elsewhere, queue := AdmissionQueue()), starting.device_lock(elsewhere, queue):
        pass  # its passes wait for no one here


def test_stopping_frees_the_row(served: Any, far: remote.RemoteCheckpoint) -> None:
    settings = replace(SETTINGS, max_new_tokens=400)
    stopped, closed = Control(None), Control(None)
    records = remote.records(far, "autoregressive", far.encode(TEXT), settings, stopped)
    next(records)
    stopped.stop()
    assert len(list(records)) <= 1
    records = remote.records(far, "autoregressive", far.encode(TEXT), settings, closed)
    next(records)
    records.close()  # type: ignore[attr-defined]
    served.until(lambda: served.service.running == served.service.waiting == 0)


@pytest.mark.parametrize(
    ("decoder", "changes", "says"),
    [
        ("jacobi", {}, "can be asked for"),
        ("self_speculative", {"extra_proposal": True}, "cannot be asked for extra_proposal, got True"),
        ("sliding_window", {"score": "margin"}, "cannot be asked for score"),
    ],
)
def test_what_it_cannot_be_asked_is_refused(
    far: remote.RemoteCheckpoint, decoder: str, changes: dict[str, Any], says: str
) -> None:
    few = replace(far, decoders=("sliding_window", "self_speculative"))
    with pytest.raises(ValueError, match=says):
        remote.records(few, decoder, [3], replace(SETTINGS, **changes), Control(None))


def test_what_the_server_refuses_is_said(far: remote.RemoteCheckpoint) -> None:
    ids = far.encode(TEXT)
    with pytest.raises(ValueError, match="max_tokens must be at most"):
        list(remote.records(far, "autoregressive", ids, replace(SETTINGS, max_new_tokens=2000), Control(None)))
    with pytest.raises(ValueError, match="no pass of it can be made here"):
        far.engine.open(1, 1)


@pytest.mark.parametrize(
    "event",
    [
        '{"mars": null}',
        '{"mars": []}',
        '{"mars": {"records": 7}}',
        '{"mars": {"records": [null]}}',
        '{"mars": {"records": [{"index": 0}]}}',
        '{"error": null}',
        '{"error": {"code": 1}}',
        '{"error": "x"}',
        '{"mars": {"records": [{"index": 0, "phase": "decode", "seconds": 0.1, "query_tokens": 1, "rows": []}]}}',
        '{"mars": ' + "[" * 700 + "]" * 700 + "}",
        "{",
    ],
)
def test_what_is_no_record_is_refused(far: remote.RemoteCheckpoint, event: str) -> None:
    with pytest.raises(ValueError, match="sends no records that can be read"):
        remote._read(event, far)


def test_tokens_of_another_model_are_refused(far: remote.RemoteCheckpoint) -> None:
    found = list(remote.records(far, "autoregressive", far.encode(TEXT), SETTINGS, Control(None)))
    event = json.dumps({"mars": {"records": [asdict(record) for record in found]}})
    assert remote._read(event, far) == found
    few = replace(far, engine=replace(far.engine, vocab_size=3))
    with pytest.raises(ValueError, match="of one row with tokens of this model"):
        remote._read(event, few)


def test_who_does_not_answer_is_named(serve: Callable[..., Any], served: Any) -> None:
    with pytest.raises(CheckpointError, match="no server answers at http"):
        remote.connect("http://127.0.0.1:9/v1/")
    with pytest.raises(CheckpointError, match="not a server that lanes can use"):
        remote.connect(f"{served.url}/metrics")
    locked = serve(keys=["secret-key-of-this-test"])
    with pytest.raises(CheckpointError, match="not a server that lanes can use"):
        remote.connect(locked.url)
    assert remote.is_address("https://here")
    assert not remote.is_address("Qwen/Qwen2.5-0.5B")
