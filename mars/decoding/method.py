"""A decoder, pass by pass: the window that it forwards for a batch of rows, and the proposals that it accepts.

A `Method` holds settings and no state of a run, so that rows may join and leave between passes, and rows with equal
methods share a batch. `Pool` (mars/decoding/pool.py) does the rest: prompts, passes, records.

Below stand the windows of plans: root, drafts and masks of each row in their slots, and who sees whom.

Shapes: R rows, Q columns of a window, W proposals a row, V vocabulary, K slots, D drafts, M masks of a group.
`tokens_RK` holds a row's tokens by slot (slot p + 1 for position p): the prompt, what was accepted, and past `length_R`
whatever the row's method left to read next, such as drafts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import repeat, takewhile
from typing import TYPE_CHECKING, ClassVar, Final

import torch
from torch.nn import functional

from mars.acceptance import HostAcceptResult, Read, match_prefix, read, threshold_prefix
from mars.config import DecodingSettings, ScoreName
from mars.control import Control
from mars.decoding.trace import reasons_of, trace
from mars.decoding.trees import PRICE, ROOT, Copies, Expectation, Plan
from mars.engine.window import Window, verification_tree
from mars.records import FinishReason, Phase, Proposal, Reads, RowPass, Source, Trace
from mars.sampling import Sampling

if TYPE_CHECKING:
    from mars.engine import Engine

NO_MASK: Final = -1


@dataclass(slots=True, kw_only=True)
class Row:
    """The host's state of one sequence.

    Counts of tokens: `length` in prompt and response, `pending` without cached keys and values, `written` in the
    response, `gained` in the last pass, `drafted` left by it as drafts to verify (`proposed`, with their `scores`),
    `unread` in the prompt that must be cached before the row writes. A row is `reading` until its prompt, and those
    that it started with, are read. A `resting` row sits out passes that others take part in. `plan` has its columns in
    the pass. `response` has the tokens written. `copies` knows the whole text if drafts are copied from it; tokens in
    `template_ids` are never drafts.

    A policy says what the row spends (mars/decoding/policy.py): its `method` in the next pass, `own` being that of its
    request, at most so many `masks`, if they gain what they are `worth`, and the `price` of a column, both in tokens.
    `expectation` says how often its drafts are right, where it has plans.

    `limit` is the length of the response at which it waits; it may be moved.
    """

    number: int
    prompt: Sequence[int]
    method: Method
    settings: DecodingSettings
    control: Control
    written: int = 0
    gained: int = 0
    drafted: int = 0
    pending: int = 1
    unread: int = 0
    reading: bool = False
    resting: bool = False
    proposed: Sequence[int] = ()
    scores: Sequence[float] = ()
    plan: Plan = ROOT
    own: Method = field(init=False)
    masks: int = 0
    worth: float = 0.0
    price: float = PRICE
    expectation: Expectation | None = None
    response: list[int] = field(default_factory=list)
    template_ids: frozenset[int] = frozenset()
    copies: Copies | None = None
    limit: int = 2**31

    def __post_init__(self) -> None:
        self.own = self.method

    @property
    def length(self) -> int:
        """Tokens of prompt and response so far."""
        return len(self.prompt) + self.written

    @property
    def room(self) -> int:
        """Tokens that it may write before it waits or ends."""
        return min(self.settings.max_new_tokens, self.limit) - self.written

    def read_copies(self) -> Copies:
        """Update its `copies` to the whole text, and return them."""
        self.copies = self.copies or Copies(self.template_ids)
        known = len(self.copies.tokens) - len(self.prompt)
        self.copies.read(self.response[known:] if known >= 0 else (*self.prompt, *self.response))
        return self.copies

    @property
    def threshold(self) -> float | None:
        """The threshold in force now; None where the method knows none."""
        return self.control.threshold if self.method.uses_threshold else None

    def ending(self, last_id: int, stop_ids: frozenset[int]) -> FinishReason | None:
        """The reason why the row ends with the token `last_id`, which is counted already; None if it goes on."""
        if last_id in stop_ids:
            return "stop"
        if self.written == self.settings.max_new_tokens:
            return "length"
        return "cancelled" if self.control.stopped else None

    def take(self, engine: Engine, batch: Batch, window: Window, place: int, result: HostAcceptResult) -> RowPass:
        """Take over what a pass has written for this row, which is `place` of the batch; the record of it."""
        accepted, threshold, start = result.accepted[place], batch.thresholds[place], self.written
        proposals = result.proposals(place, self.method.sources(self, threshold, accepted))
        kept, ids = result.drafts[place], result.ids[place]
        traced = self.traced(engine, batch, window, place, proposals, accepted, kept=kept)
        self.written += accepted
        self.gained, self.drafted = accepted, kept
        self.pending = 1 if self.method.phase == "verify" else accepted
        self.response += ids[:accepted]
        self.proposed = ids[accepted : accepted + kept]
        self.scores = result.scores[place][accepted : accepted + kept]
        reason = self.ending(ids[accepted - 1], engine.stop_token_ids)
        return RowPass(self.number, start, proposals, accepted, threshold, reason, traced)

    def only_read(self, window: Window, place: int) -> RowPass:
        """The record of a pass that read tokens of this row, which is `place` of the window, and proposed none."""
        known = self.length
        traced = trace(window, place, known=known, text=known) if self.control.trace else None
        reason: FinishReason | None = "cancelled" if self.control.stopped else None
        return RowPass(self.number, self.written, (), 0, self.threshold, reason, traced)

    def traced(
        self,
        engine: Engine,
        batch: Batch,
        window: Window,
        place: int,
        proposals: Sequence[Proposal],
        accepted: int,
        *,
        kept: int = 0,
        text: int | None = None,
    ) -> Trace | None:
        """The trace of a pass for this row, which is `place` of the batch and the window; None unless asked for.

        Its counts are those before the pass. The next pass verifies `kept` of the proposals as drafts. Where this is a
        row of a draft model, `text` of its known tokens are no drafts, and what it accepts are drafts.
        """
        if not self.control.trace:
            return None
        score, stop_ids = self.method.score, engine.stop_token_ids
        threshold = None if self.method.verifies else batch.thresholds[place]
        reasons = list(reasons_of(proposals, accepted, threshold, score=score, kept=kept, stop_ids=stop_ids))
        if text is not None:
            reasons[:accepted] = ["kept"] * accepted
        return trace(
            window,
            place,
            known=self.length,
            text=self.length if text is None else text,
            behind=self.plan.reads,
            proposals=proposals,
            reasons=reasons,
        )


@dataclass(slots=True, kw_only=True)
class Batch:
    """The rows of one method in one pass: views of `Sequences`, or copies where they do not lie side by side.

    `pending` is the number of columns of real tokens that the window needs, `drafts` the number of drafts to verify,
    `room` the number of tokens worth proposing: the most of any row, or the most possible if every pass must have the
    same shape (`static`).
    """

    rows: list[Row]
    tokens_RK: torch.Tensor
    length_R: torch.Tensor
    pending_R: torch.Tensor
    written_R: torch.Tensor
    room_R: torch.Tensor
    limits_R: torch.Tensor
    stop_ids: torch.Tensor
    sampling: Sampling
    pending: int
    drafts: int
    room: int
    static: bool
    thresholds: tuple[float | None, ...]

    @property
    def extent(self) -> int:
        """1 + the furthest slot that holds a known token of any row."""
        return 1 + max(row.length for row in self.rows)

    def behind(self, count: int) -> torch.Tensor:
        """So many tokens behind each row's last one [R, count]: what the pass before left to read."""
        offsets_D = torch.arange(1, count + 1, device=self.length_R.device)
        return self.tokens_RK.gather(1, self.length_R[:, None] + offsets_D)

    def matched(self, ids_RW: torch.Tensor, drafts_RD: torch.Tensor) -> torch.Tensor:
        """The accepted prefix [R] where exact verification decides (`match_prefix`)."""
        return match_prefix(ids_RW, drafts_RD, stop_ids=self.stop_ids, room_R=self.room_R)

    def met(self, ids_RW: torch.Tensor, scores_RW: torch.Tensor, score: ScoreName) -> torch.Tensor:
        """The accepted prefix [R] where the scores and the rows' thresholds decide (`threshold_prefix`)."""
        limits_R, room_R, stop_ids = self.limits_R, self.room_R, self.stop_ids
        return threshold_prefix(ids_RW, scores_RW, thresholds_R=limits_R, score=score, stop_ids=stop_ids, room_R=room_R)


@dataclass(frozen=True, slots=True)
class AcceptResult:
    """The proposals of each row in the order of their positions, and how many are accepted [R], on the device.

    `left_RW` has the tokens to leave behind the row's last token for the next pass, the accepted ones first; None: the
    proposals. `drafts_R` is the number of drafts among them, for methods that count them.
    """

    read: Read
    accepted_R: torch.Tensor
    left_RW: torch.Tensor | None = None
    drafts_R: torch.Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A decoder, pass by pass. Subclasses are frozen dataclasses: rows with equal methods share a batch.

    `phase` is the phase of its records; a pass of phase "verify" has read all tokens that it accepts but the last, as
    drafts. If no threshold decides, `uses_threshold` is false and records carry None;
    `verifies` says that it decides about drafts, not about the proposals of masks.
    `capturable` says that, in static shapes, `window` and `judge` depend on nothing but the tensors of the batch and on
    whether all its thresholds are None: then a CUDA graph can hold the whole pass.
    """

    phase: ClassVar[Phase] = "decode"
    uses_threshold: ClassVar[bool] = False
    verifies: ClassVar[bool] = False
    capturable: ClassVar[bool] = False

    mask_token_id: int = NO_MASK
    score: ScoreName = "probability"
    calibration: torch.Tensor | None = field(default=None, compare=False, repr=False)
    alternatives: int = 0

    @property
    @abstractmethod
    def lookahead(self) -> int:
        """The number of slots past a row's last token that its windows and proposals may reach."""

    @property
    def adapts(self) -> bool:
        """Whether it leaves what rows spend to a policy (mars/decoding/policy.py)."""
        return False

    @property
    def most_masks(self) -> int:
        """The most masks of a row behind one prefix."""
        return 0

    @property
    def mask_counts(self) -> tuple[int, ...]:
        """The numbers of masks that a row may have in static shapes, ascending; none if every row may have its own."""
        return ()

    def spending(self, masks: int) -> Method:
        """This method for a pass in which a row has so many masks, where that makes another one."""
        return self

    @property
    def pending(self) -> int:
        """The most tokens of a row that one pass can leave uncached."""
        return 1

    def begin(self, row: Row, tokens_K: torch.Tensor) -> None:
        """Prepare the slots past the prompt of a new row, in place."""

    def shape(self, batch: Batch) -> tuple[int, int]:
        """The drafts of a row in the next pass, K, and the masks behind each of their prefixes."""
        return 0, 0

    def reads(self, row: Row, drafts: int) -> Iterable[Reads]:
        """What these places for drafts have in this row; those that it leaves out are absent."""
        return repeat("draft", min(row.drafted, drafts))

    def plan(self, batch: Batch) -> None:
        """Give each row the `plan` of its columns in the next pass, by `shape` if that is all there is to say."""
        drafts, masks = self.shape(batch)
        for row in batch.rows:
            reads = tuple(self.reads(row, drafts))
            absent: Sequence[Reads] = ["absent"] * (drafts - len(reads))
            row.plan = Plan.of((*reads, *absent), (masks,) * (drafts + 1))

    def window(self, batch: Batch) -> Window:
        """The window that the next pass forwards: that of the plans."""
        return tree_window(batch, *self.shape(batch), self.mask_token_id)

    def judge(self, batch: Batch, logits_RWV: torch.Tensor) -> AcceptResult:
        """Accept from the predictions of this window's last columns: drafts that are right, and the token behind."""
        proposals = self.read(batch, logits_RWV)
        return AcceptResult(proposals, batch.matched(proposals.ids_RW, batch.behind(self.shape(batch)[0])))

    @property
    def hides_refused(self) -> bool:
        """Whether its records leave out drafts that were refused."""
        return False

    def sources(self, row: Row, threshold: float | None, accepted: int) -> Sequence[Source]:
        """The source of each proposal of a recorded row, in order: the drafts, or those accepted and the masks behind.

        `row` has its counts from before the pass.
        """
        plan = row.plan
        right = min(accepted - 1, plan.drafts)
        masks = plan.masks[right] if threshold is not None or self.verifies or not self.uses_threshold else 0
        drafts = list(takewhile(lambda reads: reads != "absent", (draft.reads for draft in plan.chain)))
        if masks or self.hides_refused:
            drafts = drafts[:right]
        return ("clean", *drafts, *repeat("mask", masks))[: row.room]  # type: ignore[return-value]

    def layout_name(self, row: Row) -> str:
        """The name under which the row's last pass is counted."""
        return self.phase

    def read(
        self,
        batch: Batch,
        logits_RWV: torch.Tensor,
        offsets_W: torch.Tensor | None = None,
        masks: int = 0,
    ) -> Read:
        """Tokens and scores of the columns; they predict the next positions in order, or those at `offsets_W`.

        Offsets are [W], the same for all rows, or [R, W]. The last `masks` columns are a group of masks, whose scores
        may be calibrated.
        """
        if offsets_W is None:
            offsets_W = torch.arange(logits_RWV.shape[1], device=logits_RWV.device)
        positions_RW = batch.written_R[:, None] + offsets_W
        proposals = read(
            logits_RWV,
            positions_RW,
            score=self.score,
            sampling=batch.sampling,
            alternatives=self.alternatives,
        )
        return proposals if self.calibration is None else proposals.calibrated(masks, self.calibration)

    def read_rows(
        self, batch: Batch, logits_RWV: torch.Tensor, root_R: torch.Tensor | None, masks: int = 0
    ) -> tuple[Read, torch.Tensor | None]:
        """As `read`, but the proposals of each row from its root on, which is column `root_R`, or the first.

        Returns: the proposals and the columns that they were read in, None if that is all of them in order.
        """
        if root_R is None:
            return self.read(batch, logits_RWV, masks=masks), None
        columns_W = torch.arange(logits_RWV.shape[1], device=logits_RWV.device)
        proposals = self.read(batch, logits_RWV, (columns_W - root_R[:, None]).clamp_min(0), masks)
        index_RW = (columns_W + root_R[:, None]).clamp_max(columns_W[-1])
        return proposals.taken(index_RW), index_RW

    def read_path(
        self, batch: Batch, logits_RWV: torch.Tensor, columns_RM: torch.Tensor, chain: Read, last_R: torch.Tensor
    ) -> Read:
        """The proposals of the chain up to `last_R`, then those of the group of masks in these columns behind it."""
        rows_R1 = torch.arange(len(logits_RWV), device=logits_RWV.device)[:, None]
        logits_RMV = logits_RWV[rows_R1, columns_RM]
        offsets_RM = last_R[:, None] + torch.arange(1, columns_RM.shape[1] + 1, device=logits_RWV.device)
        return chain.joined(self.read(batch, logits_RMV, offsets_RM, masks=columns_RM.shape[1]), last_R)


def window_of(batch: Batch, extra: int, shift_R: torch.Tensor | None = None) -> Window:
    """The causal window from the tokens that are not cached yet to `extra` slots past each row's last token.

    The last 1 + `extra` columns predict. With `shift_R`, each row's columns begin and end so many slots earlier.
    Columns in front of what a row has to read are padding, slot 0.
    """
    offsets_Q = torch.arange(1 - batch.pending, extra + 1, device=batch.length_R.device)
    offsets_RQ = offsets_Q if shift_R is None else offsets_Q - shift_R[:, None]
    slots_RQ = batch.length_R[:, None] + offsets_RQ
    if shift_R is not None or batch.pending > 1:
        slots_RQ.masked_fill_(offsets_RQ <= -batch.pending_R[:, None], 0)
    ids_RQ = batch.tokens_RK.gather(1, slots_RQ)
    return Window(ids_RQ=ids_RQ, slots_RQ=slots_RQ, extent=batch.extent + extra, keep=1 + extra)


def tree_window(batch: Batch, drafts: int, masks: int, mask_token_id: int) -> Window:
    """The window of so many drafts, with a group of masks behind each of their prefixes (`verification_tree`)."""
    window = window_of(batch, drafts + (drafts + 1) * masks)
    if masks:
        window.ids_RQ[:, batch.pending + drafts :].fill_(mask_token_id)
    if not drafts or not masks:
        return window
    depths_Q, sees_QQ = _regular_tree(batch.pending, drafts, masks, window.ids_RQ.device)
    positions_RQ = (batch.length_R[:, None] - 1 + depths_Q).clamp_min(0)
    return replace(window, positions_RQ=positions_RQ, sees_RQQ=sees_QQ[None])


def planned_window(batch: Batch, extra: int, mask_token_id: int) -> Window:
    """The window of each row's plan, aligned on the right; `extra` columns stand behind the first root."""
    plans, device = [row.plan for row in batch.rows], batch.length_R.device
    if not extra:
        return window_of(batch, 0)
    ids = [
        [-1] * (1 + extra - plan.columns) + [draft.token_id for draft in plan.chain] + [mask_token_id] * sum(plan.masks)
        for plan in plans
    ]
    behind_RC = torch.tensor(ids, device=device)  # -1 where there is no column
    alone = len(plans) == 1 and not batch.static
    columns_R = torch.tensor([plan.columns for plan in plans], device=device)
    window = window_of(batch, extra, None if alone else extra + 1 - columns_R)
    window.ids_RQ[:, -extra:] = torch.where(behind_RC < 0, window.ids_RQ[:, -extra:], behind_RC)
    if not any(any(plan.masks) for plan in plans):
        return window
    trees = [verification_tree(batch.pending, plan.masks, device) for plan in plans]
    missing = [window.columns - len(depths_Q) for depths_Q, _ in trees]
    pairs = list(zip(trees, missing, strict=True))
    depths_RQ = torch.stack([functional.pad(depths_Q, (left, 0)) for (depths_Q, _), left in pairs])
    sees_RQQ = torch.stack([functional.pad(sees_QQ, (left, 0, left, 0)) for (_, sees_QQ), left in pairs])
    if any(missing):
        sees_RQQ |= torch.eye(window.columns, dtype=torch.bool, device=device)
    positions_RQ = (batch.length_R[:, None] - 1 + depths_RQ).clamp_min_(0)
    return replace(window, positions_RQ=positions_RQ, sees_RQQ=sees_RQQ)


@cache  # there are few of them, and CUDA graphs read them where they lie
def _regular_tree(pending: int, drafts: int, masks: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    return verification_tree(pending, (masks,) * (drafts + 1), device)


def group_of(last_R: torch.Tensor, drafts: int, masks: int) -> torch.Tensor:
    """The columns [R, M] of the masks that stand behind column `last_R` of the chain of a verification tree.

    Group j of the tree (`verification_tree`) starts at column K + 1 + jM.
    """
    return 1 + drafts + masks * last_R[:, None] + torch.arange(masks, device=last_R.device)


def drafts_of(plans: Sequence[Plan], most: int, device: torch.device) -> torch.Tensor:
    """The drafts of each plan [R, D], D = `most`; shorter plans are filled up with -1."""
    ids = [[draft.token_id for draft in plan.chain] + [-1] * (most - plan.drafts) for plan in plans]
    return torch.tensor(ids, dtype=torch.long, device=device)
