"""The decoders, by name. Each yields one `ForwardPass` per call of the model; mars/decoders.py describes them.

`METHODS` make the methods of those whose rows may share passes with rows of other runs (mars/decoding/service.py). A
decoder's module is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from mars import decoders
from mars.decoders import DecoderInfo

if TYPE_CHECKING:
    from mars.config import DecodingSettings
    from mars.decoding.base import Decoder
    from mars.decoding.method import Method
    from mars.engine import Engine

_T = TypeVar("_T")


class _Loaded(Mapping[str, _T]):
    """Decoders by name, imported by `load` on first use; without `alone`, only those that can share passes."""

    def __init__(self, load: Callable[[DecoderInfo], _T], *, alone: bool) -> None:
        self._load, self._alone = load, alone

    def __getitem__(self, name: str) -> _T:
        if name not in self._names():
            raise KeyError(name)
        return self._load(decoders.TABLE[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def _names(self) -> list[str]:
        return [name for name, info in decoders.TABLE.items() if self._alone or not info.alone]


def _decoder(info: DecoderInfo) -> Decoder:
    function = decoders.load(info.function)
    return function if info.alone else decoders.load("mars.decoding.pool:decoder_of")(function)


METHODS: Mapping[str, Callable[[Engine, DecodingSettings], Method]] = _Loaded(
    lambda info: decoders.load(info.function), alone=False
)
DECODERS: Mapping[str, Decoder] = _Loaded(_decoder, alone=True)

__all__ = ["DECODERS", "METHODS"]
