"""A lane whose model is elsewhere: its records come from the endpoint, and the page says where that is."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.compare import starting
from app.compare.lane_choice import LaneChoice
from app.compare.lane_request import requested, why_not
from app.models.placement import Loader
from app.scheduling import AdmissionQueue
from mars.checkpoint import Checkpoint, load_checkpoint
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS
from mars.metrics import output_ids
from mars.serve import Limits, remote
from mars.serve.async_service import AsyncService, Served
from mars.serve.guard import Callers
from mars.serve.metrics import Metrics
from mars.serve.routes import build

CHECKPOINT = Path(__file__).parents[3] / "assets" / "checkpoints" / "mars-b8"
ADDRESS = "http://engine.test:8000"
SETTINGS = DecodingSettings(max_new_tokens=16, block_size=8)


@pytest.fixture(scope="module")
def here() -> Checkpoint:
    return load_checkpoint(CHECKPOINT)


@pytest.fixture(scope="module")
def client(here: Checkpoint) -> Iterator[TestClient]:
    metrics = Metrics()
    service = AsyncService(here, metrics)
    app = build(Served(name="there", checkpoint=here, service=service), Limits(), Callers(), metrics)
    with TestClient(app) as asking:
        yield asking


@pytest.fixture
def there(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> Any:
    @contextmanager
    def at(address: str) -> Iterator[TestClient]:
        assert address == ADDRESS
        yield client

    monkeypatch.setattr(remote, "_client", at)
    return Loader("cpu")(f"{ADDRESS}/v1")


def test_its_records_come_from_the_endpoint(there: Any, here: Checkpoint) -> None:
    ids = starting.prompt_ids(there, "Tom has 3 apples.", SETTINGS.max_new_tokens)
    found = list(starting.start(there, "self_speculative", ids, SETTINGS, Control(None), 4))
    own = list(DECODERS["autoregressive"](here.engine, [here.encode("Tom has 3 apples.")], SETTINGS))
    assert output_ids(found) == output_ids(own)
    assert not starting.is_shared(iter(found))


def test_a_remote_lane_says_what_it_cannot(there: Any) -> None:
    [request] = requested([LaneChoice(checkpoint="there")])
    assert "engine.test:8000" in str(replace(request, checkpoint=there).card())
    assert why_not(LaneChoice(checkpoint="there"), there) is None
    refused = why_not(LaneChoice(checkpoint="there", layout="tree", decoder="self_speculative"), there)
    assert refused is not None
    assert "layout" in refused
    with starting.device_lock(there, AdmissionQueue()):
        pass
