"""The objective of a MARS adapter: masks and real tokens go through one LoRA on a frozen base model.

Groups of masks are put behind anchors, positions of the answers of a conversation: mask k of a group reads the real
tokens up to its anchor and the masks before it, and learns the token k + 2 places behind the anchor. The real tokens
are held to the base's distribution. In the last part of a training, `own_block`, a mask learns instead what the frozen
base writes behind the most probable tokens of the masks before it (arXiv 2602.06019): one path, not a mixture of them.

Shapes: R sequences, L tokens, A anchors a sequence, K masks an anchor, N masks that are computed (of R * A * K), C
columns of one pass (R * L real tokens, or these and N masks), H heads, G key-value heads, D head size, E hidden size,
S rank, V vocabulary, T teacher's candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from mars.engine.linear import LINEARS, linear_of
from mars.training.data import Numbered

TEACHER_CANDIDATES = 32
LOSS_ROWS, LOSS_ROWS_CUDA = 128, 4096  # rows whose logits exist at once: few fit a CPU's cache, many fill a GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorCollator:
    """Pads a batch on the right and draws its anchors, from `seed` and the number of each example alone.

    So a resumed run, and the same examples in smaller batches, have the same anchors. At most `anchors` positions of
    each sequence are drawn, from the last token before an answer on. Behind each stand 1 to `masks` masks, each further
    one with probability `keep` (later masks are rarer, which costs no quality: PARD, arXiv 2504.18583). Returns
    `input_ids` [R, L], `anchors` [R, A], where A is the most anchors that a sequence of the batch has, and as flat
    indices, so that a GPU's step waits for nothing, `masks` [N] of the R * A * K masks and `before` [B] of the R * L
    tokens: those before the tokens of the answers. With `masks` 0 these are all: plain SFT.
    """

    pad_id: int
    masks: int
    anchors: int
    keep: float
    seed: int = 0

    def __call__(self, examples: Sequence[Numbered]) -> dict[str, Tensor]:
        anchors = torch.zeros(len(examples), self.anchors, dtype=torch.long)
        counts = torch.zeros(len(examples), self.anchors, dtype=torch.long)
        for row, (number, example) in enumerate(examples):
            drawn = torch.Generator().manual_seed(self.seed * 2**40 + number)
            # Mask 0 stands at anchor + 1 and predicts the token at anchor + 2, which must belong to the same answer.
            places = torch.cat([torch.arange(first - 1, end - 2) for first, end in example.answers])
            ends = torch.cat([torch.full((max(end - 1 - first, 0),), end) for first, end in example.answers])
            chosen = torch.randperm(len(places), generator=drawn)[: self.anchors].sort().values
            if not self.masks:
                continue
            more = (torch.rand(len(chosen), self.masks - 1, generator=drawn) < self.keep).long().cumprod(1).sum(1)
            anchors[row, : len(chosen)] = places[chosen]
            counts[row, : len(chosen)] = torch.minimum(1 + more, ends[chosen] - places[chosen] - 2)
        most = int((counts > 0).sum(1).max())
        masks = (torch.arange(self.masks) < counts[:, :most, None]).flatten().nonzero()[:, 0]
        ids = pad_sequence([torch.tensor(one.ids) for _, one in examples], batch_first=True, padding_value=self.pad_id)
        spans = [(row * ids.shape[1], span) for row, (_, one) in enumerate(examples) for span in one.answers]
        before = torch.cat([start + torch.arange(first - 1, end - 1) for start, (first, end) in spans])
        return {"input_ids": ids, "anchors": anchors[:, :most], "masks": masks, "before": before}


def _loss_rows(x: Tensor) -> int:
    return LOSS_ROWS_CUDA if x.is_cuda else LOSS_ROWS


class TeacherLoss(torch.autograd.Function):
    """Sum over rows of the cross-entropy against soft targets, without ever keeping all logits.

    Targets are `target_NT` (mass, need not sum to 1) at `ids_NT`. The gradient is made in the forward pass, in pieces.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden_NE: Tensor, vocabulary_VE: Tensor, ids_NT: Tensor, target_NT: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The loss, a scalar, and which rows' most probable token is their last target, bool [N]."""
        loss = hidden_NE.new_zeros((), dtype=torch.float32)
        gradient, hits, size = torch.empty_like(hidden_NE), [], _loss_rows(hidden_NE)
        parts = zip(*(part.split(size) for part in (hidden_NE, ids_NT, target_NT)), strict=True)
        for number, (hidden, ids, target) in enumerate(parts):
            log_p = (hidden @ vocabulary_VE.t()).log_softmax(-1, dtype=torch.float32)
            chosen = log_p.gather(1, ids)
            hits.append(chosen[:, -1] >= log_p.amax(-1))
            loss -= (target * chosen).sum()
            slope = log_p.exp_().mul_(target.sum(-1, keepdim=True)).scatter_add_(1, ids, -target)
            gradient[number * size : number * size + len(ids)] = slope.to(hidden.dtype) @ vocabulary_VE
        ctx.save_for_backward(gradient)
        found = torch.cat(hits)
        ctx.mark_non_differentiable(found)
        return loss, found

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        """The gradient of the hidden states alone."""
        (gradient,) = ctx.saved_tensors
        return gradient * gradients[0].to(gradient.dtype), None, None, None


SCALE = 2.0
"""lora_alpha / r."""
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Attention of a layer: queries [C, H, D], keys and values [C, G, D] give [C, H * D]."""


class LowRankPair(nn.Module):
    """A and B of one linear layer, float32; B begins at zero."""

    def __init__(self, linear: nn.Linear, rank: int):
        super().__init__()
        device = linear.weight.device
        self.a = nn.Parameter(torch.empty(rank, linear.in_features, dtype=torch.float32, device=device))
        self.b = nn.Parameter(torch.zeros(linear.out_features, rank, dtype=torch.float32, device=device))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))  # as PEFT

    def forward(self, x_CI: Tensor) -> Tensor:
        """What is added to the layer's product [C, O], in the dtype of `x_CI`."""
        return x_CI @ self.a.to(x_CI.dtype).t() @ (self.b * SCALE).to(x_CI.dtype).t()


class AdapterModel(nn.Module):
    """A frozen base, a LoRA, and the embedding of the mask.

    The loss has a part that holds the answers' tokens to the base's distribution, times `sft_weight`: then merging the
    adapter leaves one plain model. Without masks, K = 0, it is the cross-entropy of the answers' tokens: plain SFT.
    The last share `own_block` of the training, of which `done` is done, judges the masks by their own block.

    `hits` [K] counts the masks whose most probable token was right, `seen` [K] all masks, since both were set to zero.
    """

    accepts_loss_kwargs = True  # so the Trainer leaves it to us to divide by the masks of a whole step

    def __init__(
        self, base: PreTrainedModel, *, masks: int, rank: int, sft_weight: float = 1.0, own_block: float = 0.0
    ):
        super().__init__()
        self.sft_weight, self.own_block, self.done = sft_weight, own_block, 0.0
        for parameter in base.parameters():
            parameter.requires_grad_(False)
        self.base: Any = base
        self.pairs: Any = nn.ModuleList(
            nn.ModuleDict({name: LowRankPair(linear_of(layer, name), rank) for name in LINEARS})
            for layer in base.base_model.layers
        )
        embedding = base.get_input_embeddings().weight
        noise = torch.randn(min(masks, 1), embedding.shape[1]).to(embedding.device)  # the same on every device
        start = embedding.float().mean(0) + 0.02 * noise
        self.mask_embeddings = nn.Parameter(start, requires_grad=masks > 0)
        self.masks = masks
        self.hits = torch.zeros(masks)
        self.seen = torch.zeros(masks)

    def state_dict(self, *arguments: Any, **options: Any) -> dict[str, Any]:  # type: ignore[override]
        """The trained weights."""
        trained = {name for name, parameter in self.named_parameters() if parameter.requires_grad}
        return {name: value for name, value in super().state_dict(*arguments, **options).items() if name in trained}

    def forward(self, input_ids: Tensor, anchors: Tensor, masks: Tensor, before: Tensor) -> dict[str, Tensor]:
        """Sums of cross-entropy in nats: `mask_loss` over masks, `clean_loss` over the answers' tokens, weighted."""
        rows, length = input_ids.shape
        ids_C = input_ids.flatten()
        if not self.masks:
            hidden = self._walk(*self._real(input_ids), lambda *x: _attend_real(rows, *x)[0])
            return {"clean_loss": self._written(hidden[before], ids_C[before + 1])[0]}
        row_N, k_N, place_N = _places(anchors, masks, self.masks)
        masks_NE = self.mask_embeddings[torch.zeros_like(masks)]
        student_CE, hidden_NE = self.hidden(input_ids, anchors, masks, masks_NE)
        # Mask k of a group stands at place + 1 and stands for the token behind it.
        wanted_N = ids_C[row_N * length + place_N + 2]
        with torch.no_grad():
            if self.done < 1 - self.own_block:
                teacher_CE = self.base.base_model(input_ids, use_cache=False).last_hidden_state.flatten(0, 1)
            else:  # the proposal of mask k stands one place behind it, and right before mask k + 1
                said_NE = self.base.get_input_embeddings()(_candidates(hidden_NE, self.vocabulary, 1)[0][:, 0])
                teacher_CE, judged_NE = self.hidden(input_ids, anchors + 1, masks, said_NE, adapted=False)
                behind_N = _candidates(judged_NE, self.vocabulary, 1)[0][:, 0].roll(1)
                wanted_N = torch.where(k_N == 0, wanted_N, behind_N)
        loss, hits = self._written(hidden_NE, wanted_N)
        self._count(hits, k_N)
        ids, mass = _candidates(teacher_CE[before], self.vocabulary)
        clean, _ = TeacherLoss.apply(student_CE[before], self.vocabulary, ids, mass)
        return {"mask_loss": loss, "clean_loss": clean * self.sft_weight}

    def hidden(
        self, input_ids: Tensor, anchors: Tensor, index_N: Tensor, x_NE: Tensor, adapted: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Normed states of the real tokens [R * L, E] and of groups of columns [N, E], embedded so, behind anchors."""
        clean_CE, places_C = self._real(input_ids)
        places = torch.cat((places_C, _places(anchors, index_N, self.masks)[2] + 1))
        groups = _Groups(len(input_ids), anchors, index_N, self.masks)
        both = self._walk(torch.cat((clean_CE, x_NE.to(clean_CE.dtype))), places, groups, adapted)
        clean_CE, x_NE = both.split((len(clean_CE), len(x_NE)))
        return clean_CE, x_NE

    def _real(self, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings [R * L, E] and positions [R * L] of the real tokens."""
        rows, length = input_ids.shape
        embedded: Tensor = self.base.get_input_embeddings()(input_ids)
        return embedded.flatten(0, 1), torch.arange(length, device=input_ids.device).repeat(rows)

    @property
    def vocabulary(self) -> Tensor:
        """The matrix that makes logits of hidden states [V, E]."""
        weight: Tensor = self.base.get_output_embeddings().weight
        return weight

    def _walk(self, x_CE: Tensor, places_C: Tensor, attend: Attend, adapted: bool = True) -> Tensor:
        """Normed states [C, E] of columns at these positions, through the layers, with or without the adapter."""
        backbone = self.base.base_model
        cosines, sines = backbone.rotary_emb(x_CE, places_C[None])
        size = backbone.layers[0].self_attn.head_dim

        def product(number: int, name: str, x_CI: Tensor) -> Tensor:
            found: Tensor = linear_of(backbone.layers[number], name)(x_CI)
            return found + self.pairs[number][name](x_CI) if adapted else found

        for number, layer in enumerate(backbone.layers):
            normed = layer.input_layernorm(x_CE)
            queries, keys, values = (
                product(number, name, normed).unflatten(-1, (-1, size)) for name in ("q_proj", "k_proj", "v_proj")
            )
            queries, keys = apply_rotary_pos_emb(queries, keys, cosines[0], sines[0])
            x_CE = x_CE + product(number, "o_proj", attend(queries, keys, values))
            normed = layer.post_attention_layernorm(x_CE)
            gate, up = (product(number, name, normed) for name in ("gate_proj", "up_proj"))
            x_CE = x_CE + product(number, "down_proj", functional.silu(gate) * up)
        normed_CE: Tensor = backbone.norm(x_CE)
        return normed_CE

    def _written(self, state_NE: Tensor, ids_N: Tensor) -> tuple[Tensor, Tensor]:
        """The cross-entropy of the tokens that were written, and which of them are the most probable."""
        return TeacherLoss.apply(
            state_NE, self.vocabulary, ids_N[:, None], torch.ones_like(ids_N, dtype=torch.float32)[:, None]
        )

    def _count(self, hits: Tensor, k_N: Tensor) -> None:
        # Where the masks are: nothing is read back from a GPU in a step.
        self.hits, self.seen = self.hits.to(hits.device), self.seen.to(hits.device)
        self.hits.index_add_(0, k_N, hits.float())
        self.seen.index_add_(0, k_N, torch.ones_like(k_N, dtype=torch.float32))


def _places(anchors: Tensor, index_N: Tensor, masks: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of each computed mask [N]: its row, its number k in the group, and the position k places behind the anchor."""
    group, k = index_N // masks, index_N % masks
    return group // anchors.shape[1], k, anchors.flatten()[group] + k


@torch.no_grad()
def _candidates(state_NE: Tensor, vocabulary_VE: Tensor, count: int = TEACHER_CANDIDATES) -> tuple[Tensor, Tensor]:
    """The most probable tokens [N, T] of these states and their probabilities."""
    ids, mass = [], []
    for part in state_NE.split(_loss_rows(state_NE)):
        best, index = (part @ vocabulary_VE.t()).log_softmax(-1, dtype=torch.float32).topk(count)
        ids.append(index)
        mass.append(best.exp_())
    return torch.cat(ids), torch.cat(mass)


def _attend_real(rows: int, queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Attention [C, H * D] of R padded sequences among their own real tokens; their keys and values [R, G, L, D]."""
    queries, keys, values = (x.unflatten(0, (rows, -1)).transpose(1, 2) for x in (queries, keys, values))
    grid = queries.unflatten(1, (keys.shape[1], -1)) * queries.shape[-1] ** -0.5  # [R, G, S, L, D]
    length = keys.shape[2]
    # Padding is on the right, so no real token sees it. (The fused kernel's backward pass is slow on a CPU.)
    scores = (grid.flatten(2, 3) @ keys.transpose(2, 3)).view(*grid.shape[:4], length)
    unseen = torch.full((length, length), -torch.inf, device=keys.device, dtype=keys.dtype).triu_(1)
    weights = (scores + unseen).softmax(-1)
    found = (weights.flatten(2, 3) @ values).view_as(grid).flatten(1, 2)
    return found.transpose(1, 2).flatten(2).flatten(0, 1), keys, values


class _Groups:
    """Attention of the real tokens, and of the masks: to those up to their anchor, and in their group up to themselves.

    The columns of the masks stand behind those of the real tokens.
    """

    def __init__(self, rows: int, anchors: Tensor, index_N: Tensor, masks: int):
        self._rows, self._anchors, self._index_N, self._masks = rows, anchors, index_N, masks
        self._own_KK = torch.full((masks, masks), -torch.inf, device=anchors.device).triu_(1)

    def __call__(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        real = len(queries) - len(self._index_N)
        found, *clean = _attend_real(self._rows, queries[:real], keys[:real], values[:real])
        return torch.cat((found, self._attend(queries[real:], keys[real:], values[real:], *clean)))

    def _attend(self, queries: Tensor, keys: Tensor, values: Tensor, clean_RGLD: Tensor, values_RGLD: Tensor) -> Tensor:
        """[N, H * D]."""
        rows, count = self._anchors.shape
        groups, length, size = clean_RGLD.shape[1:]
        share = queries.shape[1] // groups

        def spread(x: Tensor) -> Tensor:
            """From the computed masks [N, …] to the grid of all of them [R, A, K, …]."""
            grid = x.new_zeros(rows * count * self._masks, *x.shape[1:]).index_copy(0, self._index_N, x)
            return grid.view(rows, count, self._masks, *x.shape[1:])

        grid = (
            spread(queries * size**-0.5).unflatten(3, (groups, share)).permute(0, 3, 4, 1, 2, 5)
        )  # [R, G, S, A, K, D]
        own_keys, own_values = (spread(x).permute(0, 3, 1, 2, 4)[:, :, None] for x in (keys, values))
        past = torch.arange(length, device=grid.device) > self._anchors[..., None]
        bias_RAL = torch.zeros_like(past, dtype=torch.float32).masked_fill_(past, -torch.inf)
        far = (grid.flatten(2, 4) @ clean_RGLD.transpose(2, 3)).float().view(*grid.shape[:5], length)
        near = (grid @ own_keys.transpose(4, 5)).float() + self._own_KK
        weights = torch.cat((far + bias_RAL[:, None, None, :, None], near), -1).softmax(-1).to(grid.dtype)
        far, near = weights.split((length, self._masks), -1)
        found = (far.flatten(2, 4) @ values_RGLD).view_as(grid) + near @ own_values
        return found.permute(0, 3, 4, 1, 2, 5).flatten(0, 2).index_select(0, self._index_N).flatten(1)
