"""Two models in one engine: the target, which decides what is written, and a draft, which proposes it.

DECODERS["speculative"](Pair(target, draft), prompts, settings)
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from mars.engine.engine import Engine, EngineWrapper, Rows
from mars.engine.window import Window


class Pair(EngineWrapper):
    """The target as an engine, with its draft in `draft`; any decoder but `speculative` sees the target alone.

    `same_tokens` says that ids in both vocabularies mean the same tokens although the sizes differ, as for checkpoints
    of one family that are padded to different sizes. ValueError for vocabularies of different sizes without
    `same_tokens`, or models on different devices.
    """

    def __init__(self, target: Engine, draft: Engine, *, same_tokens: bool = False):
        super().__init__(target)
        if target.vocab_size != draft.vocab_size and not same_tokens:
            raise ValueError(
                f"the draft has another vocabulary than the target: {draft.vocab_size} and {target.vocab_size} tokens; "
                "speculative needs two checkpoints with the same tokenizer"
            )
        if target.device != draft.device:
            raise ValueError(f"draft and target must be on one device, got {draft.device} and {target.device}")
        self.target = target
        self.draft: Engine = DraftEngine(draft, target)

    def open(self, rows: int, capacity: int) -> Rows:
        return self.target.open(rows, capacity)


class DraftEngine(EngineWrapper):
    """A draft adapted to its target: it proposes no id that the target does not know, and not the target's mask."""

    def __init__(self, draft: Engine, target: Engine):
        super().__init__(draft)
        self.stop_token_ids = target.stop_token_ids
        self.template_ids = target.template_ids
        self.vocab_size = target.vocab_size
        self._known = min(draft.vocab_size, target.vocab_size)
        self._mask_may_be_written = target.mask_token_id != draft.mask_token_id
        self._mask = target.mask_token_id if self._mask_may_be_written else None

    def open(self, rows: int, capacity: int) -> Rows:
        return _DraftRows(self._inner.open(rows, capacity), self)

    def readable(self, window: Window) -> torch.Tensor:
        """The window's ids as the draft's embedding has them.

        An id that only the target knows is read as the draft's last. A target without trained masks may write the token
        that the draft takes for a mask: among real tokens, which stand before the masks, it is read as token 0. The
        mask of an adapter is one past the draft's last id, and stays so where masks stand.
        """
        last = self._inner.vocab_size - 1
        ids_RQ = window.ids_RQ.clamp_max(last)
        if self.mask_token_id is not None and self.mask_token_id > last:
            masks = slice(window.columns - window.keep + 1, None)
            ids_RQ[:, masks] = window.ids_RQ[:, masks]
        elif self.mask_token_id is not None and self._mask_may_be_written:
            real_RQ = ids_RQ[:, : window.columns - window.keep + 1]
            real_RQ.masked_fill_(real_RQ == self.mask_token_id, 0)
        return ids_RQ

    def proposable(self, logits_RWV: torch.Tensor) -> torch.Tensor:
        """Logits over the ids that both know, -inf for the target's mask."""
        logits_RWV = logits_RWV[..., : self._known]
        if self._mask is None or self._mask >= self._known:
            return logits_RWV
        mask_V = torch.arange(self._known, device=logits_RWV.device) == self._mask
        return logits_RWV.masked_fill(mask_V, -math.inf)


class _DraftRows:
    def __init__(self, rows: Rows, draft: DraftEngine):
        self._rows = rows
        self._draft = draft
        self.move, self.copy = rows.move, rows.copy

    @property
    def warming(self) -> bool:
        """As `Rows.warming`, of the draft."""
        return self._rows.warming

    def forward(self, window: Window) -> torch.Tensor:
        """Logits [R, keep, V] over the ids that both models know."""
        readable = replace(window, ids_RQ=self._draft.readable(window))
        return self._draft.proposable(self._rows.forward(readable))
