"""AdamW, or Muon for the matrices inside the layers with AdamW for the rest (docs/log.md compares them)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW, Muon, Optimizer

BETAS = (0.9, 0.98)


class MuonAdamW(Optimizer):
    """Two optimizers that step as one and share their parameter groups with the learning-rate schedule."""

    def __init__(self, muon: Muon, adamw: AdamW) -> None:
        self._parts: tuple[Optimizer, Optimizer] = (muon, adamw)
        super().__init__([*muon.param_groups, *adamw.param_groups], {})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step of both; a closure is evaluated once, before."""
        loss = closure() if closure is not None else None
        for part in self._parts:
            part.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The states of both, in order."""
        return {"parts": [part.state_dict() for part in self._parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore both; the groups are shared again afterwards."""
        for part, state in zip(self._parts, state_dict["parts"], strict=True):
            part.load_state_dict(state)
        self.param_groups = [group for part in self._parts for group in part.param_groups]


def make_optimizer(name: str, model: nn.Module, learning_rate: float, weight_decay: float) -> Optimizer:
    """The optimizer of this name, adamw or muon. Muon's updates are scaled to AdamW's size, so one rate serves both."""
    if name == "adamw":
        return AdamW(model.parameters(), lr=learning_rate, betas=BETAS, weight_decay=weight_decay)
    inner = {id(p) for layer in model.modules() if isinstance(layer, nn.ModuleList) for p in layer.parameters()}
    matrices = [p for p in model.parameters() if p.ndim == 2 and id(p) in inner]
    rest = [p for p in model.parameters() if p.ndim != 2 or id(p) not in inner]
    return MuonAdamW(
        Muon(matrices, lr=learning_rate, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw"),
        AdamW(rest, lr=learning_rate, betas=BETAS, weight_decay=weight_decay),
    )
