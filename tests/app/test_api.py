"""The public endpoints, called by gradio_client; and the example of docs/api.md."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.api import table
from mars.records import from_object

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def client(served: Any) -> Iterator[Any]:
    from gradio_client import Client

    client = Client(served.url, verbose=False)
    yield client
    client.close()


@pytest.mark.browser
def test_generate_answers_with_text_and_records(client: Any, scriptorium: Any) -> None:
    found = client.predict("How many sheep?", api_name="/generate")
    assert found["state"] == "done"
    assert found["checkpoint"] == "mars"
    assert found["text"].endswith("#### 48")
    records = [from_object(record) for record in found["records"]]
    ids = [token for record in records for token in record.rows[0].accepted_ids]
    assert scriptorium.tokenizer.decode(ids, skip_special_tokens=True) == found["text"]
    assert found["counts"]["passes"] < found["counts"]["tokens"] == len(ids)


@pytest.mark.browser
def test_parameters_reach_the_decoder(client: Any) -> None:
    asked = {"checkpoint": "ar", "decoder": "autoregressive", "max_new_tokens": 16, "settings": {"alternatives": 1}}
    found = client.predict("How many sheep?", **asked, api_name="/generate")
    assert found["finish_reason"] == "length"
    assert found["counts"]["tokens"] == found["counts"]["passes"] == 16
    assert len(found["records"][-1]["rows"][0]["proposals"][0]["alternatives"]) == 1


@pytest.mark.browser
def test_runs_is_a_table(client: Any) -> None:
    assert set(client.predict(api_name="/runs")) == {"headers", "data", "problems"}


@pytest.mark.browser
def test_only_these_two_are_public(client: Any) -> None:
    assert set(client.view_api(return_format="dict", print_info=False)["named_endpoints"]) == {"/generate", "/runs"}


@pytest.mark.browser
def test_the_example_of_the_documentation_runs(served: Any, capsys: pytest.CaptureFixture[str]) -> None:
    [example] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.DOTALL)
    example = example.replace("http://127.0.0.1:7860", served.url).replace("mars-b8", "mars")
    exec(compile(example, "docs/api.md", "exec"), {})
    said = capsys.readouterr().out
    assert "#### 48" in said
    assert "tokens per forward" in said


@pytest.fixture
def stored() -> Any:
    import pandas as pd

    rows = [{"id": "a", "threshold": 0.9, "tasks": ("x", "y")}, {"id": "b", "threshold": None, "tasks": ("x",)}]
    runs = SimpleNamespace(table=lambda: pd.DataFrame(rows))
    problems = ("a.parquet: runs[3].id is missing.",)
    return SimpleNamespace(runs=runs, problems=problems, once=lambda _, make: make())


def test_the_table_is_json(stored: Any) -> None:
    found = table(stored)
    assert found["headers"] == ["id", "threshold", "tasks"]
    assert found["data"] == [["a", 0.9, ["x", "y"]], ["b", None, ["x"]]]
    assert found["problems"] == ["a.parquet: runs[3].id is missing."]


def test_columns_can_be_chosen(stored: Any) -> None:
    found = table(stored, ["threshold", "id"])
    assert found["headers"] == ["threshold", "id"]
    assert found["data"] == [[0.9, "a"], [None, "b"]]


@pytest.mark.parametrize("columns", [["path"], "id", [7], [["id"]], {"id": 1}, ["x" * 1000], ["id"] * 1000])
def test_columns_that_there_are_not_are_refused(stored: Any, columns: Any) -> None:
    with pytest.raises(ValueError, match=r"^columns(\[0\])? must "):
        table(stored, columns)
