"""A store that these tests share, read and measured once."""

from collections.abc import Callable

import pytest

from app.tradeoffs.run_cache import RunCache
from tests.app.tradeoffs.fabricated import store


@pytest.fixture(scope="session")
def run_cache(tmp_path_factory: pytest.TempPathFactory) -> RunCache:
    """The run cache of the store."""
    return RunCache(store(tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="session")
def run_of(run_cache: RunCache) -> Callable[..., str]:
    """`run_of("mars", "sliding_window", 0.95)`: the id of the run with this model, decoder, threshold, batch size."""

    def found(model: str, decoder: str = "sliding_window", threshold: float | None = None, batch_size: int = 16) -> str:
        wanted = (model, decoder, threshold, batch_size, "probability")
        for entry in run_cache.runs.entries:
            settings = entry["settings"]
            has = (entry["model"]["name"], entry["decoder"], settings["threshold"], entry["batch_size"])
            if (*has, settings["score"]) == wanted:
                return str(entry["id"])
        raise LookupError(wanted)

    return found
