import gzip
import re

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from analysis import plotly_script
from app.browser import bundle

# The page's own script stands behind the table of the decoders. Files are compared outside `assert`: where CI is set,
# pytest explains how megabytes differ, for minutes.
FILES = [(bundle.page_script(), bundle.script().encode()), (bundle.plotly(), plotly_script.PATH.read_bytes())]
CLIENT = TestClient(Starlette(routes=bundle.routes()))


@pytest.mark.parametrize(("address", "content"), FILES, ids=["page", "plotly"])
def test_a_script_is_served_and_kept_for_good(address: str, content: bytes) -> None:
    answer = CLIENT.get("/" + address, headers={"accept-encoding": "identity"})
    whole = answer.content.endswith(content)
    assert whole
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize(("address", "content"), FILES, ids=["page", "plotly"])
def test_it_is_packed_for_those_who_can_unpack(address: str, content: bytes) -> None:
    with CLIENT.stream("GET", "/" + address, headers={"accept-encoding": "gzip"}) as answer:
        packed = b"".join(answer.iter_raw())
    whole = gzip.decompress(packed).endswith(content)
    assert whole
    assert len(packed) < len(content) / 2


@pytest.mark.parametrize("changed", ["app.browser.bundle.script", "mars.decoders.as_json"])
def test_another_script_has_another_address(changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = bundle.page_script()
    monkeypatch.setattr(changed, lambda: "other();")
    assert bundle.page_script() != before


def test_no_rule_inside_media_begins_at_the_root() -> None:
    blocks = re.findall(r"@media[^{]*\{((?:[^{}]*\{[^{}]*\})*)", bundle.styles())
    assert blocks
    at_root = re.compile(r"(?:^|[,}])\s*(?::root|html|body|\.dark|\.lens-(?:projector|settings-open|begun))\b[^{]*\{")
    assert [rule for block in blocks for rule in at_root.findall(block)] == []  # Gradio's copy of it matches nothing
