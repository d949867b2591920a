from __future__ import annotations

import gzip
from importlib.resources import files

from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.server import plotly

SCRIPT = files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
CLIENT = TestClient(Starlette(routes=[plotly.route()]))


def test_the_file_of_the_package_is_served_and_kept_for_good() -> None:
    answer = CLIENT.get("/" + plotly.ADDRESS, headers={"accept-encoding": "identity"})
    assert answer.content == SCRIPT
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "immutable" in answer.headers["cache-control"]


def test_it_is_packed_for_those_who_can_unpack() -> None:
    with CLIENT.stream("GET", plotly.PATH, headers={"accept-encoding": "gzip"}) as answer:
        packed = b"".join(answer.iter_raw())
    assert gzip.decompress(packed) == SCRIPT
    assert len(packed) < len(SCRIPT) / 2
