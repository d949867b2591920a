"""The decoders, by name. Each yields one `ForwardPass` per call of the model; mars/decoders.py describes them.

`METHODS` are those whose rows may share passes with rows of other runs (mars/decoding/service.py). A decoder's module
is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, TypeVar

from mars import decoders

if TYPE_CHECKING:
    from mars.config import DecodingSettings
    from mars.decoding.base import Decoder
    from mars.decoding.method import Method
    from mars.engine import Engine

_T = TypeVar("_T")


class _Loaded(Mapping[str, _T]):
    """The objects that a field of each `DecoderInfo` names, for those decoders that fill it in."""

    def __init__(self, field: Literal["function", "method"]) -> None:
        self._field = field

    def _place(self, name: str) -> str:
        place: str = getattr(decoders.TABLE[name], self._field)
        return place

    def __getitem__(self, name: str) -> _T:
        if name not in self:
            raise KeyError(name)
        found: _T = decoders.load(self._place(name))
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in decoders.TABLE and bool(self._place(name))

    def __iter__(self) -> Iterator[str]:
        return (name for name in decoders.TABLE if self._place(name))

    def __len__(self) -> int:
        return sum(1 for _ in self)


DECODERS: Mapping[str, Decoder] = _Loaded("function")
METHODS: Mapping[str, Callable[[Engine, DecodingSettings], Method]] = _Loaded("method")

__all__ = ["DECODERS", "METHODS"]
