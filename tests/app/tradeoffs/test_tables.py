import io

import pandas as pd

from analysis.figures import frontier_points
from app.tradeoffs.run_cache import RunCache
from app.tradeoffs.tables import csv


def points(run_cache: RunCache) -> pd.DataFrame:
    return frontier_points(run_cache.table())


def test_csv_has_the_very_numbers(run_cache: RunCache) -> None:
    drawn = points(run_cache)
    read = pd.read_csv(io.StringIO(csv(drawn)))
    assert read["accuracy"].tolist() == drawn["accuracy"].tolist()
    assert read["id"].tolist() == drawn["id"].tolist()
    assert "hover" not in read


def test_csv_holds_no_formula(run_cache: RunCache) -> None:
    drawn = points(run_cache).head(1).assign(command="=HYPERLINK(1)", model="@x")
    read = pd.read_csv(io.StringIO(csv(drawn)))
    assert read["command"].tolist() == ["'=HYPERLINK(1)"]
    assert read["model"].tolist() == ["'@x"]
    assert read["tasks"].tolist() == ["logic; word_problems"]
