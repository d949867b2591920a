"""Passes of a few fixed shapes, each captured once in a CUDA graph and replayed from then on.

A pass is rounded up to a bucket: more rows, which are all padding, and a further extent, which the mask hides. A pass
that reads a prompt and predicts nothing gets more columns, too, which are padding: it may have any width. A graph holds
the model alone, from the embedding to the logits, or a whole pass of a decoder, from the window to the accepted tokens
(whole_pass.py). Without a GPU, or before a graph is captured, the same pass runs eagerly on the same
static tensors: all but the capture itself can be tested on a CPU.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch

from mars.engine.backends import WARM_UPS
from mars.engine.memory import Memory, rounded_extent
from mars.engine.window import Window

# Wider windows compute more than they launch; of those that predict there are too many widths, too.
_MOST_COLUMNS = 256
_LEAST_READ, _MOST_READ = 16, 512  # the same for windows that predict nothing, whose columns are rounded up
_MOST_POSITIONS = 8192  # rows times columns of those
_MOST_GRAPHS = 256

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """All that the graph of a model is made for.

    `placed` and `tree` say whether the windows bring positions and a mask of attention. `first` is the cached row that
    the first row is.
    """

    rows: int
    columns: int
    keep: int
    extent: int
    placed: bool
    tree: bool
    first: int = 0


def bucket_of(window: Window, *, rows: int, slots: int) -> Bucket | None:
    """The bucket of a window on a memory of so many rows and slots; None where a graph would not pay.

    Rows are rounded up to a power of two, the extent by `rounded_extent`; neither beyond the memory. Windows that
    predict nothing (`keep` 0) have their columns rounded up to a power of two. They alone may begin at a later row
    than 0, and have only that row then.
    """
    held, columns = rounded_rows(window.rows, rows), window.columns
    if window.keep == 0:
        held = held if window.first == 0 else window.rows
        columns = max(1 << (columns - 1).bit_length(), _LEAST_READ)
        too_large = columns > _MOST_READ or held * columns > _MOST_POSITIONS or (window.first > 0 and held > 1)
    else:
        too_large = columns > _MOST_COLUMNS or window.first > 0
    if too_large:
        return None
    return Bucket(
        rows=held,
        columns=columns,
        keep=window.keep,
        extent=min(rounded_extent(window.extent), slots),
        placed=window.positions_RQ is not None,
        tree=window.sees_RQQ is not None,
        first=window.first,
    )


def rounded_rows(rows: int, most: int) -> int:
    """The next power of two, but at most `most`."""
    return min(1 << (rows - 1).bit_length(), most)


def reaches_to(end: int, slots: int) -> Iterator[int]:
    """The smallest extent of each bucket (`rounded_extent`) up to `end`, on a memory of so many slots."""
    reach = 2
    while reach <= end:
        yield reach
        reach = 1 + min(rounded_extent(reach), slots)


def read_widths() -> Iterator[int]:
    """The columns of the graphs of prompts."""
    width = _LEAST_READ
    while width <= _MOST_READ:
        yield width
        width *= 2


class Stage:
    """The tensors that a bucket's passes read, at addresses that do not change."""

    def __init__(self, bucket: Bucket, device: torch.device):
        shape = (bucket.rows, bucket.columns)
        self._bucket = bucket
        self._ids_RQ, self._slots_RQ, self._positions_RQ = torch.zeros(3, *shape, dtype=torch.long, device=device)
        self._sees_RQQ = torch.zeros(*shape, bucket.columns, dtype=torch.bool, device=device)

    def window(self) -> Window:
        """A new window on the tensors: what it computes from them must be computed in every pass."""
        return Window(
            ids_RQ=self._ids_RQ,
            slots_RQ=self._slots_RQ,
            extent=self._bucket.extent,
            keep=self._bucket.keep,
            first=self._bucket.first,
            positions_RQ=self._positions_RQ if self._bucket.placed else None,
            sees_RQQ=self._sees_RQQ if self._bucket.tree else None,
        )

    def set(self, window: Window) -> None:
        """Take over a window of this bucket; rows that it lacks become padding, and columns on the left.

        Padding is what has slot 0: what else its places hold, from a window before, does not matter.
        """
        rows, left = window.rows, self._bucket.columns - window.columns
        self._ids_RQ[:rows, left:].copy_(window.ids_RQ)
        self._slots_RQ[:rows, left:].copy_(window.slots_RQ)
        self._slots_RQ[:rows, :left].zero_()
        self._slots_RQ[rows:].zero_()
        if window.positions_RQ is not None:
            self._positions_RQ[:rows, left:].copy_(window.positions_RQ)
        if window.sees_RQQ is not None:
            self._sees_RQQ[:rows, left:, left:].copy_(window.sees_RQQ)


class Runner:
    """Runs windows on a memory, in static shapes where a bucket fits; with `capture`, by CUDA graphs.

    A graph is captured at the fourth use of its shape. Should that fail, everything is run eagerly from then on, after
    a warning. Until then the memory says that it is `warming`. `beside` is for tensors of the user of the memory that
    graphs read as well: they are kept as long as the graphs.
    """

    def __init__(self, memory: Memory, *, capture: bool):
        self.memory = memory
        self.beside: Any = None
        self._capture = capture
        self._stages: dict[Bucket, Stage] = {}
        self._uses: dict[Hashable, int] = {}
        self._replays: dict[Hashable, Callable[[], Any]] = {}
        self._pool = torch.cuda.graph_pool_handle() if capture else None

    @property
    def captures(self) -> bool:
        """Whether graphs are captured: on a GPU, as long as none has failed."""
        return self._capture

    def forward(self, window: Window) -> torch.Tensor:
        """Logits [R, keep, V]; the next pass overwrites them."""
        bucket = bucket_of(window, rows=self.memory.rows, slots=self.memory.slots)
        if bucket is None:
            self.memory.warming = False
            extent = min(rounded_extent(window.extent), self.memory.slots)
            return self.memory.forward(replace(window, extent=extent), static=True)
        if bucket not in self._stages:
            self._stages[bucket] = Stage(bucket, window.ids_RQ.device)
        stage = self._stages[bucket]
        stage.set(window)
        self.memory.note(window.first + window.rows, window.extent)
        return self.run(bucket, lambda: self.memory.forward(stage.window(), static=True))[: window.rows]

    def run(self, key: Hashable, body: Callable[[], T]) -> T:
        """What `body` returns; the next pass overwrites its tensors.

        It is a pass on tensors that stay where they are, and looks at no value of theirs. `key` names all else that it
        depends on, and what kind of pass it is.
        """
        self.memory.warming = False
        if key in self._replays:
            replayed: T = self._replays[key]()
            return replayed
        self._uses[key] = self._uses.get(key, 0) + 1
        self.memory.warming = self._capture and len(self._replays) < _MOST_GRAPHS
        if self.memory.warming and self._uses[key] > WARM_UPS:
            try:
                self._replays[key] = self._captured(body)
                first: T = self._replays[key]()
                return first
            except RuntimeError as error:
                self._capture = self.memory.warming = False
                reason = str(error).partition("\n")[0]
                warnings.warn(f"CUDA graphs are off, decoding goes on without them: {reason}", stacklevel=2)
        return body()

    def _captured(self, body: Callable[[], T]) -> Callable[[], T]:
        """Capture a pass. While it is captured, nothing of it is computed."""
        graph = torch.cuda.CUDAGraph()
        with _uncollected(), torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            result = body()

        def replay() -> T:
            graph.replay()
            return result

        return replay


@contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage is collected meanwhile: a graph of earlier rows that ended during a capture would make it fail."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
