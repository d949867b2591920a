"""The order in which examples are read: batches of one length each, in mixed order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from torch.utils.data import Sampler

BATCHES_PER_BUCKET = 80


class MixedLengthBatches(Sampler[int]):
    """Neighbouring `batch_size` indices have similar lengths, so that little is padded; the batches come shuffled.

    Sorting by length sorts by family, and steps in which all examples are of one family learn slower
    (docs/log.md): that is why the Trainer's own grouping, which keeps neighbouring batches alike, is not used.
    The order depends on the seed and the epoch alone.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self._lengths = lengths
        self._batch_size = batch_size
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of this epoch."""
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[int]:
        rng = Random(f"{self._seed}/{self._epoch}")
        order = list(range(len(self._lengths)))
        rng.shuffle(order)
        size = self._batch_size * BATCHES_PER_BUCKET
        for first in range(0, len(order), size):
            bucket = sorted(order[first : first + size], key=lambda index: self._lengths[index])
            batches = [bucket[start : start + self._batch_size] for start in range(0, len(bucket), self._batch_size)]
            last = batches.pop() if len(batches[-1]) < self._batch_size else []
            rng.shuffle(batches)
            yield from (index for batch in [*batches, last] for index in batch)
