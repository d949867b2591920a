"""The objective of a MARS adapter: masks behind a frozen base model, and a head that knows the token before.

The base reads a conversation once, without gradient, and keeps keys, values and hidden states. Groups of masks are then
put behind anchors, positions of the answers: mask k of a group reads the real tokens up to its anchor and the masks
before it, and learns what the base itself predicts k + 1 tokens further on. Only the masks' columns go through the
adapter, so a gated adapter leaves the base as it is, bit for bit.

Shapes: R sequences, L tokens, A anchors a sequence, K masks an anchor, N masks that are computed (of R * A * K),
H heads, G key-value heads, D head size, E hidden size, V vocabulary, T teacher's candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from mars.chat import encode_messages, encode_text
from mars.engine.adapter import LINEARS
from mars.engine.conditional import EPSILON
from mars.training.settings import Mode

TEACHER_CANDIDATES = 32
LOSS_ROWS, LOSS_ROWS_CUDA = 128, 4096  # rows whose logits exist at once: few fit a CPU's cache, many fill a GPU


@dataclass(frozen=True, slots=True)
class Conversation:
    """Token ids, and the spans [first, end) of them that the assistant wrote, end of turn included."""

    ids: tuple[int, ...]
    answers: tuple[tuple[int, int], ...]


def encode_conversation(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[dict[str, str]], max_length: int, *, ended: bool = True
) -> Conversation:
    """Tokenize a conversation of user and assistant turns; tokens past `max_length` are left out.

    `ended` says whether the last answer ended by itself: only then is the end of its turn a part of it.
    """
    ids: list[int] = []
    spans: list[tuple[int, int]] = []
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        ids = encode_messages(tokenizer, messages[:number])
        first = len(ids)
        ids += encode_text(tokenizer, message["content"])
        if ended or number < len(messages) - 1:
            ids.append(int(tokenizer.eos_token_id))
        spans.append((first, len(ids)))
    cut = [(first, min(end, max_length)) for first, end in spans if first < max_length]
    return Conversation(tuple(ids[:max_length]), tuple(cut))


def _padded(examples: Sequence[Conversation], pad_id: int) -> Tensor:
    """Their token ids [R, L], padded on the right."""
    ids = [torch.tensor(example.ids) for example in examples]
    return pad_sequence(ids, batch_first=True, padding_value=pad_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCollator:
    """The same as `AnchorCollator` for plain SFT: an anchor before each token of the answers, and no masks."""

    pad_id: int

    def __call__(self, examples: Sequence[Conversation]) -> dict[str, Tensor]:
        places = [
            torch.cat([torch.arange(first - 1, end - 1) for first, end in example.answers]) for example in examples
        ]
        anchors = pad_sequence(places, batch_first=True)
        counts = pad_sequence([torch.ones_like(chosen) for chosen in places], batch_first=True)
        return {"input_ids": _padded(examples, self.pad_id), "anchors": anchors, "counts": counts}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorCollator:
    """Pads a batch on the right and draws its anchors anew each time, from torch's generator.

    At most `anchors` positions of each sequence are drawn, from the last token before an answer on. Behind each stand 1
    to `masks` masks, each further one with probability `keep` (later masks are rarer, which costs no quality: PARD,
    arXiv 2504.18583). Returns `input_ids` [R, L], `anchors` [R, A] and `counts` [R, A], 0 where there is no anchor; A
    is the most anchors that a sequence of the batch has.
    """

    pad_id: int
    masks: int
    anchors: int
    keep: float

    def __call__(self, examples: Sequence[Conversation]) -> dict[str, Tensor]:
        anchors = torch.zeros(len(examples), self.anchors, dtype=torch.long)
        counts = torch.zeros(len(examples), self.anchors, dtype=torch.long)
        for row, example in enumerate(examples):
            # Mask 0 stands at anchor + 1 and predicts the token at anchor + 2, which must belong to the same answer.
            places = torch.cat([torch.arange(first - 1, end - 2) for first, end in example.answers])
            ends = torch.cat([torch.full((max(end - 1 - first, 0),), end) for first, end in example.answers])
            chosen = torch.randperm(len(places))[: self.anchors].sort().values
            more = (torch.rand(len(chosen), self.masks - 1) < self.keep).long().cumprod(1).sum(1)
            anchors[row, : len(chosen)] = places[chosen]
            counts[row, : len(chosen)] = torch.minimum(1 + more, ends[chosen] - places[chosen] - 2)
        most = int((counts > 0).sum(1).max())
        ids = _padded(examples, self.pad_id)
        return {"input_ids": ids, "anchors": anchors[:, :most], "counts": counts[:, :most]}


class ConditionalHead(nn.Module):
    """Adds the token before a mask to its hidden state: c = n + down · silu(up · [rms(e); rms(n)])."""

    def __init__(self, hidden_size: int, width: int | None = None):
        super().__init__()
        width = width or 2 * hidden_size
        self.up = nn.Linear(2 * hidden_size, width, bias=False)
        self.down = nn.Linear(width, hidden_size, bias=False)
        nn.init.zeros_(self.down.weight)

    def forward(self, before_NE: Tensor, hidden_NE: Tensor) -> Tensor:
        """States [N, E] from the embeddings of the tokens before and the masks' normed hidden states."""
        both = torch.cat((_rms(before_NE), _rms(hidden_NE)), -1)
        moved: Tensor = self.down(functional.silu(self.up(both)))
        return hidden_NE + moved


def _rms(x: Tensor) -> Tensor:
    wide = x.float()
    return (wide * (wide.square().mean(-1, keepdim=True) + EPSILON).rsqrt()).to(x.dtype)


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
            logits = (hidden @ vocabulary_VE.t()).float()
            hits.append(logits.argmax(-1) == ids[:, -1])
            normal = logits.logsumexp(-1, keepdim=True)
            mass = target.sum(-1, keepdim=True)
            loss += (mass * normal - (target * logits.gather(1, ids)).sum(-1, keepdim=True)).sum()
            slope = logits.sub_(normal).exp_().mul_(mass).scatter_add_(1, ids, -target)
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


class AdapterModel(nn.Module):
    """A frozen base, a LoRA for the masks' columns, an embedding for each mask of a group, and the conditional head.

    In mode `merged` the adapter acts on real tokens too, all masks share one embedding, and the loss has an SFT part
    unless `sft_loss` is False, as in the paper: then merging the adapter leaves one plain model. Without masks, K = 0,
    the SFT part is all of the loss.

    `state_dict` holds the trained weights and nothing else. `hits` [2, K] counts the masks whose most probable token
    was right, `seen` [2, K] all masks (alone, and given the token before), since both were last set to zero.
    """

    def __init__(
        self,
        base: PreTrainedModel,
        *,
        masks: int,
        rank: int,
        head: bool,
        mode: Mode = "gated",
        sft_loss: bool = True,
        marginal_share: float = 0.3,
    ):
        super().__init__()
        self.mode = mode
        self.sft_loss = mode == "merged" and sft_loss
        config = LoraConfig(
            r=rank, lora_alpha=2 * rank, target_modules=list(LINEARS), lora_dropout=0.0, task_type="CAUSAL_LM"
        )
        for parameter in base.parameters():
            parameter.requires_grad_(False)
        self.peft: PeftModel = get_peft_model(base, config)
        for module in self.peft.modules():
            if isinstance(module, BaseTunerLayer):
                module.cast_input_dtype_enabled = False  # autocast casts the few weights instead of the many inputs
        embedding = base.get_input_embeddings().weight
        kinds = masks if mode == "gated" else min(masks, 1)
        noise = torch.randn(kinds, embedding.shape[1]).to(embedding.device)  # the same on every device
        start = embedding.float().mean(0) + 0.02 * noise
        self.mask_embeddings = nn.Parameter(start, requires_grad=masks > 0)
        self.head = ConditionalHead(embedding.shape[1]) if head else None
        self.masks = masks
        self.marginal_share = marginal_share
        self.hits = torch.zeros(2, masks)
        self.seen = torch.zeros(2, masks)

    @property
    def base(self) -> Any:
        """The `transformers` model, its linears wrapped by PEFT."""
        return self.peft.get_base_model()

    def state_dict(self, *arguments: Any, **options: Any) -> dict[str, Any]:  # type: ignore[override]
        """The trained weights."""
        trained = {name for name, parameter in self.named_parameters() if parameter.requires_grad}
        return {name: value for name, value in super().state_dict(*arguments, **options).items() if name in trained}

    def forward(self, input_ids: Tensor, anchors: Tensor, counts: Tensor) -> dict[str, Tensor]:
        """The loss in nats per mask, plus, with the SFT loss, that of the real tokens, per token."""
        device = input_ids.device
        with torch.autocast(device.type, torch.bfloat16, enabled=self.base.dtype == torch.bfloat16):
            with torch.no_grad(), self.peft.disable_adapter():
                teacher = clean = self.base.model(input_ids=input_ids, use_cache=True)
            if self.mode == "merged":
                clean = self.base.model(input_ids=input_ids, use_cache=True)
            index_N, rows_N, k_N, places_N = self._places(anchors, counts)
            teacher_NE, next_N = teacher.last_hidden_state[rows_N, places_N], input_ids[rows_N, places_N + 1]
            targets = _targets(teacher_NE, self.base.get_output_embeddings().weight, next_N)
            losses = []
            if self.masks:
                hidden_NE = self._masks(anchors, index_N, k_N, places_N, clean.past_key_values)
                losses.append(self._loss(hidden_NE, targets, input_ids[rows_N, places_N], k_N))
            if self.sft_loss:
                losses.append(self._teach(clean.last_hidden_state[rows_N, places_N], *targets)[0] / len(k_N))
        return {"loss": torch.stack(losses).sum()}

    def _places(self, anchors: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """For the masks that are computed: numbers in the grid [R, A, K], rows, numbers in the group, positions.

        Without masks, of the anchors themselves.
        """
        size = max(self.masks, 1)
        index_N = (torch.arange(size, device=anchors.device) < counts[..., None]).flatten().nonzero()[:, 0]
        k_N = index_N % size
        places_N = anchors.flatten()[index_N // size] + k_N + min(self.masks, 1)
        return index_N, index_N // (anchors.shape[1] * size), k_N, places_N

    def _masks(self, anchors: Tensor, index_N: Tensor, k_N: Tensor, places_N: Tensor, cache: Any) -> Tensor:
        """Normed hidden states [N, E] of the masks behind the anchors."""
        backbone = self.base.model
        x_NE = self.mask_embeddings[k_N.clamp_max(len(self.mask_embeddings) - 1)].to(self.base.dtype)
        cosines, sines = backbone.rotary_emb(x_NE, places_N[None])
        rotary = cosines[0], sines[0]
        rows, count = anchors.shape
        length = cache.layers[0].keys.shape[2]
        # A mask sees the real tokens up to its anchor, and of its own group the masks before it and itself.
        past = torch.arange(length, device=anchors.device) > anchors[..., None]
        bias_RAL = torch.zeros(rows, count, length, device=anchors.device).masked_fill_(past, -torch.inf)
        own_KK = torch.full((self.masks, self.masks), -torch.inf, device=anchors.device).triu_(1)
        for number, layer in enumerate(backbone.layers):
            normed = layer.input_layernorm(x_NE)
            kept = cache.layers[number]
            found = _attend(layer.self_attn, normed, rotary, index_N, (kept.keys, kept.values), bias_RAL, own_KK)
            x_NE = x_NE + layer.self_attn.o_proj(found)
            x_NE = x_NE + layer.mlp(layer.post_attention_layernorm(x_NE))
        hidden: Tensor = backbone.norm(x_NE)
        return hidden

    def _loss(self, hidden_NE: Tensor, targets: tuple[Tensor, Tensor], before_N: Tensor, k_N: Tensor) -> Tensor:
        """Mean over the masks: KL to the base's candidates (without its constant), and half the cross-entropy."""
        ids_NT, target_NT = targets
        if self.head is None:
            loss, hits = self._teach(hidden_NE, ids_NT, target_NT)
            self._count(0, hits, k_N)
            return loss / len(k_N)
        state_NE = self.head(self.base.get_input_embeddings()(before_N), hidden_NE)
        loss, hits = self._teach(state_NE, ids_NT, target_NT)
        self._count(1, hits, k_N)
        # The head re-ranks what the mask alone finds probable, so that must be trained too; a sample of them is enough.
        few = torch.randperm(len(k_N))[: max(1, round(len(k_N) * self.marginal_share))].to(k_N.device)
        alone, hits = self._teach(hidden_NE[few], ids_NT[few], target_NT[few])
        self._count(0, hits, k_N[few])
        return loss / len(k_N) + self.marginal_share * alone / len(few)

    def _teach(self, state_NE: Tensor, ids_NT: Tensor, target_NT: Tensor) -> tuple[Tensor, Tensor]:
        return TeacherLoss.apply(state_NE, self.base.get_output_embeddings().weight, ids_NT, target_NT)

    def _count(self, kind: int, hits: Tensor, k_N: Tensor) -> None:
        self.hits[kind].index_add_(0, k_N.cpu(), hits.float().cpu())
        self.seen[kind].index_add_(0, k_N.cpu(), torch.ones(len(k_N)))


@torch.no_grad()
def _targets(teacher_NE: Tensor, vocabulary_VE: Tensor, next_N: Tensor) -> tuple[Tensor, Tensor]:
    """The base's most probable tokens with their probabilities, and last the token that was written, with 0.5."""
    ids, target = [], []
    for part in teacher_NE.split(_loss_rows(teacher_NE)):
        logits = (part @ vocabulary_VE.t()).float()
        best, index = logits.topk(TEACHER_CANDIDATES)
        ids.append(index)
        target.append((best - logits.logsumexp(-1, keepdim=True)).exp())
    half = torch.full((len(next_N), 1), 0.5, device=next_N.device)
    return torch.cat((torch.cat(ids), next_N[:, None]), 1), torch.cat((torch.cat(target), half), 1)


def _attend(
    attention: Any,
    normed_NE: Tensor,
    rotary: tuple[Tensor, Tensor],
    index_N: Tensor,
    clean_RGLD: tuple[Tensor, Tensor],
    bias_RAL: Tensor,
    own_KK: Tensor,
) -> Tensor:
    """The masks' attention [N, H * D] over the keys and values of the real tokens and of their own group."""
    size = attention.head_dim
    rows, count, _ = bias_RAL.shape
    masks = len(own_KK)
    keys_RGLD, values_RGLD = clean_RGLD
    groups = keys_RGLD.shape[1]
    projections = attention.q_proj, attention.k_proj, attention.v_proj
    queries_NHD, keys_NGD, values_NGD = (linear(normed_NE).unflatten(-1, (-1, size)) for linear in projections)
    queries_NHD, keys_NGD = apply_rotary_pos_emb(queries_NHD, keys_NGD, *rotary)
    share = queries_NHD.shape[1] // groups

    def spread(x: Tensor) -> Tensor:
        """From the computed masks [N, …] to the grid of all of them [R, A, K, …]."""
        grid = x.new_zeros(rows * count * masks, *x.shape[1:]).index_copy(0, index_N, x)
        return grid.view(rows, count, masks, *x.shape[1:])

    queries = spread(queries_NHD).unflatten(3, (groups, share)).permute(0, 3, 4, 1, 2, 5)  # [R, G, S, A, K, D]
    keys, values = (spread(x).permute(0, 3, 1, 2, 4)[:, :, None] for x in (keys_NGD, values_NGD))  # [R, G, 1, A, K, D]
    queries = queries * size**-0.5
    flat = queries.flatten(2, 4)  # [R, G, S * A * K, D]
    scores = (flat @ keys_RGLD.transpose(2, 3)).float().view(*queries.shape[:5], -1) + bias_RAL[:, None, None, :, None]
    own = (queries @ keys.transpose(4, 5)).float() + own_KK
    weights = torch.cat((scores, own), -1).softmax(-1).to(queries.dtype)
    far, near = weights.split((keys_RGLD.shape[2], masks), -1)
    found = (far.flatten(2, 4) @ values_RGLD).view_as(queries) + near @ values
    return found.permute(0, 3, 4, 1, 2, 5).flatten(0, 2).index_select(0, index_N).flatten(1)
