"""The paper's tables (assets/published), so that no figure of the paper is typed into a claim."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import pandas as pd

FOLDER = Path(__file__).parents[2] / "assets" / "published"
SMALL = "Qwen2.5-0.5B-Instruct"


class Published:
    """What claims cite of the tables; accuracies are percent, means those of all six benchmarks."""

    @cached_property
    def _one_token(self) -> pd.DataFrame:
        return _table("one_token_mode")

    @cached_property
    def _throughputs(self) -> pd.DataFrame:
        return _table("block_cache_throughput")

    def one_token_mean(self, method: str, block_size: float | None = None, base: str = SMALL) -> float:
        """Mean accuracy in one-token mode."""
        rows = self._one_token[(self._one_token["base_model"] == base) & (self._one_token["method"] == method)]
        sizes = rows["block_size"]
        return float(rows.loc[sizes.isna() if block_size is None else sizes == block_size, "mean"].iloc[0])

    @cached_property
    def at_threshold(self) -> pd.DataFrame:
        """MARS at τ = 0.95, by model and block size, with the `loss` against one-token mode in points."""
        rows = _table("multi_token_tau_0.95")
        rows = rows[rows["task"] == "mean"]
        models = zip(rows["base_model"], rows["block_size"], strict=True)
        return rows.assign(loss=[self.one_token_mean("MARS", size, base) for base, size in models] - rows["accuracy"])

    @property
    def best_block_cache(self) -> pd.Series:
        """The row with the block cache's largest speed-up over AR."""
        rows = self._throughputs[self._throughputs["method"] == "MARS, block cache"]
        return rows.loc[rows["speedup_over_ar"].idxmax()]

    @property
    def without_cache(self) -> dict[int, float]:
        """Speed-up of MARS without a cache over AR, by batch size."""
        rows = self._throughputs[self._throughputs["method"] == "MARS, no cache"]
        return dict(zip(rows["batch_size"], rows["speedup_over_ar"], strict=True))

    def ar_throughput(self, batch_size: int) -> float:
        """Tokens per second of the AR baseline."""
        rows = self._throughputs[self._throughputs["method"] == "AR, KV cache"]
        return float(rows.loc[rows["batch_size"] == batch_size, "tokens_per_second"].iloc[0])

    def speculative(self, draft: str, target: str) -> float:
        """Speed-up of a pair, such as "AR" and "MARS", over AR with AR."""
        rows = _table("speculative_decoding")
        rows = rows[rows["draft"].str.startswith(draft) & rows["target"].str.startswith(target)]
        return float(rows["speedup"].iloc[0])

    @property
    def jacobi(self) -> pd.DataFrame:
        """AR, Jacobi decoding of it and MARS at τ = 0.95, in this order."""
        return _table("jacobi_baseline")


def _table(name: str) -> pd.DataFrame:
    return pd.read_csv(FOLDER / f"{name}.csv")


PAPER = Published()
