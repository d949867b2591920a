"""Passes that are made as in the capture of a CUDA graph, without a GPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mars import sampling
from mars.engine.backends import WARM_UPS
from mars_kernels.cuda.graphs import Runner


class Capturing(TorchDispatchMode):
    """Refuses what no graph can hold: to look at a value, to bring one from the host, a shape that hangs on one."""

    REFUSED = ("_local_scalar_dense", "lift_fresh", "nonzero", "masked_select", "_unique2", "equal", "is_nonzero")

    def __torch_dispatch__(
        self, operation: Any, types: Any, arguments: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:
        name = operation.overloadpacket.__name__
        assert name not in self.REFUSED, f"a CUDA graph cannot hold {name}"
        if name in ("index", "index_put", "index_put_"):
            assert not any(index is not None and index.dtype == torch.bool for index in arguments[1])
        return operation(*arguments, **(options or {}))


def as_in_captures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """From the use on at which a pass would be captured it is made so; the keys of those that were."""
    keys: list[Any] = []
    run = Runner.run

    def strictly(self: Runner, key: Any, body: Callable[[], Any]) -> Any:
        def strict() -> Any:
            if self._uses[key] <= WARM_UPS:
                return body()
            keys.append(key)
            with Capturing():
                return body()

        return run(self, key, strict)

    monkeypatch.setattr(Runner, "run", strictly)
    monkeypatch.setattr(sampling, "most_probable", lambda logits_RWV: logits_RWV.argmax(-1))  # as on a GPU
    return keys
