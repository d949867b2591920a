"""What the paper says, looked up in its tables (assets/published), so that no figure of it is typed into a claim."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.published import BENCHMARKS

SMALL = "Qwen2.5-0.5B-Instruct"


@dataclass(frozen=True, slots=True)
class Published:
    """The table that `read_published` gives."""

    table: pd.DataFrame

    def means(self, name: str) -> pd.DataFrame:
        """The rows of one of the paper's tables that are over all six benchmarks; accuracies in percent."""
        rows = self.table[(self.table["table"] == name) & (self.table["tasks"] == BENCHMARKS)]
        return rows.assign(accuracy=100 * rows["accuracy"].astype(float))

    def one_token_mean(self, method: str, block_size: int | None = None, base: str = SMALL) -> str:
        """Mean accuracy in one-token mode, in percent."""
        return f"{self._one_token(f'{method}, {base}', block_size):.1f}"

    def at_threshold(self) -> pd.DataFrame:
        """MARS at τ = 0.95, over models and block sizes, with the loss against one-token mode in points."""
        rows = self.means("multi_token_tau_0.95")
        sizes = zip(rows["model.name"], rows["model.block_size"], strict=True)
        return rows.assign(loss=[self._one_token(name, size) for name, size in sizes] - rows["accuracy"])

    def best_block_cache(self) -> pd.Series:
        """The row of the largest speed-up over AR that the block cache reached."""
        rows = self._throughputs("block_cached")
        return rows.loc[rows["speedup"].astype(float).idxmax()]

    def without_cache(self) -> dict[int, float]:
        """Speed-up of MARS without a cache over AR, by batch size."""
        rows = self._throughputs("sliding_window")
        return {int(size): float(factor) for size, factor in zip(rows["batch_size"], rows["speedup"], strict=True)}

    def ar_throughput(self, batch_size: int) -> float:
        """Tokens per second of the AR baseline."""
        rows = self._throughputs("autoregressive")
        return float(rows.loc[rows["batch_size"] == batch_size, "tokens_per_second"].iloc[0])

    def speculative(self, draft: str, target: str) -> float:
        """Speed-up of a pair of stages over AR with AR."""
        rows = self.table[self.table["table"] == "speculative_decoding"]
        rows = rows[(rows["draft.stage"] == draft) & (rows["model.stage"] == target)]
        return float(rows["speedup"].iloc[0])

    def _throughputs(self, decoder: str) -> pd.DataFrame:
        rows = self.table[self.table["table"] == "block_cache_throughput"]
        return rows[rows["decoder"] == decoder]

    def _one_token(self, model: str, block_size: float | None) -> float:
        rows = self.means("one_token_mode")
        rows = rows[rows["model.name"] == model]
        sizes = rows["model.block_size"].astype(float)
        return float(rows.loc[sizes.isna() if block_size is None else sizes == block_size, "accuracy"].iloc[0])
