"""The model `mars` of lm-evaluation-harness: its `hf` model, except that one of our decoders writes the answers.

    lm_eval.simple_evaluate(MarsLM(checkpoint, "sliding_window", DecodingSettings(threshold=0.95)), tasks=["gsm8k_cot"])

Prompts, chat templates, stop strings and the likelihood of given texts are those of `hf`, by its own code. A prompt
that does not fit is refused, where `hf` cuts off its beginning.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import hash_args
from lm_eval.models.huggingface import HFLM
from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs, postprocess_generated_text
from lm_eval.models.utils_hf import stop_sequences_criteria
from tqdm import tqdm
from transformers import PreTrainedModel

from analysis.decoding.answers import Ends, answers
from analysis.harness.journal import Journal
from mars import decoders
from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.decoding.pair import Pair
from mars.engine import Engine, ModelEngine

GENERATE = "generate_until"
DEFAULT_TOKENS = 256
"""The longest answer of the harness's own models where a task names no length."""

_DRAWING = ("top_k", "min_p", "typical_p")
_WITHOUT_EFFECT = {"num_beams": 1, "repetition_penalty": 1.0, "use_cache": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """The settings of an answer, and the strings at the first of which it ends."""

    settings: DecodingSettings
    until: tuple[str, ...]


class MarsLM(HFLM):
    """The model. A task may override some of its `settings`; `batch_size` prompts decode at once.

    The results of requests to generate, the columns of an `Answer`, go into the `journal`; those in it are not computed
    again.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        decoder: str,
        settings: DecodingSettings,
        *,
        batch_size: int = 1,
        journal: Journal | None = None,
    ):
        decoders.check_name(decoder)
        if batch_size < 1:
            raise ValueError(f"batch_size must be >= 1, got {batch_size}")
        with _without_advice():
            super().__init__(
                pretrained=_model_of(checkpoint.engine),
                tokenizer=checkpoint.tokenizer,
                backend="causal",
                batch_size=batch_size,
            )
        self.journal = Journal() if journal is None else journal
        self._engine = checkpoint.engine
        self._decoder = decoder
        self._settings = settings
        self._end: str = self.tok_decode(self.eot_token_id, skip_special_tokens=False)

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The turns as the template writes them: it says how a text begins, so the tokenizer adds nothing."""
        self.add_bos_token = False
        return str(super().apply_chat_template(chat_history, add_generation_prompt))

    def request(self, generation_kwargs: Mapping[str, Any]) -> GenerationRequest:
        """The request that a task's `generation_kwargs` make.

        Raises:
            ValueError: it cannot.
        """
        request = read_request(generation_kwargs, self._settings, self._end)
        if request.settings.max_new_tokens >= self.max_length:
            raise ValueError(
                f"max_gen_toks must be < the context length of {self.max_length}, got {request.settings.max_new_tokens}"
            )
        return request

    def generate_until(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[str]:
        """The text of each answer, up to its first stop string; equal requests are answered once.

        Raises:
            ValueError: a prompt does not fit beside the longest answer.
        """
        results, keys = self.journal.results, [key_of(request.args) for request in requests]
        fresh = {key: request for key, request in zip(keys, requests, strict=True) if key not in results}
        alike: dict[str, dict[str, Instance]] = {}
        for key, request in fresh.items():
            alike.setdefault(json.dumps(request.args[1], sort_keys=True), {})[key] = request
        with tqdm(total=len(fresh), unit="answer", disable=disable_tqdm) as bar:
            for group in alike.values():
                for key, result in self._answers(group):
                    self.journal.add(key, result)
                    bar.update()
        return [results[key]["text"] for key in keys]

    def _answers(self, group: Mapping[str, Instance]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The results of requests that ask for the same kind of answer."""
        keys = list(group)
        request = self.request(group[keys[0]].args[1])
        longest, limit = self.max_length, request.settings.max_new_tokens
        prompts = [self._encode(group[key].args[0]) for key in keys]
        if cut := sum(len(prompt) + limit > longest for prompt in prompts):
            raise ValueError(
                f"{cut} of {len(prompts)} prompts do not fit the context of {longest} tokens and answers of {limit}; "
                f"the longest has {max(map(len, prompts))}: lower --max-new-tokens or --num-fewshot"
            )
        ends = partial(self._ends, request)
        for number, answer in answers(self._engine, self._decoder, request.settings, prompts, self.batch_size, ends):
            text = postprocess_generated_text(self.tok_decode(answer.ids), list(request.until), None)
            yield keys[number], replace(answer, text=text).columns()

    def _encode(self, context: str) -> list[int]:
        ids: list[int] = self.tok_batch_encode([context])[0][0].tolist()
        return ids

    def _ends(self, request: GenerationRequest) -> Ends:
        """Whether an answer has reached a stop string, by the test that `hf` makes with one row in a batch."""
        criteria = stop_sequences_criteria(self.tokenizer, list(request.until), 0, 1)
        return lambda ids: bool(criteria(torch.tensor([ids]), None).all())


def _model_of(engine: Engine) -> PreTrainedModel:
    target = engine.target if isinstance(engine, Pair) else engine
    if not isinstance(target, ModelEngine):
        raise TypeError(f"the harness needs a model of transformers behind its engine, got {type(target).__name__}")
    return target.model


@contextmanager
def _without_advice() -> Iterator[None]:
    """A context without the warning of `hf` that a loaded model leaves it less to do."""
    log = logging.getLogger("lm_eval.models.huggingface")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def read_request(generation_kwargs: Mapping[str, Any], base: DecodingSettings, end: str) -> GenerationRequest:
    """The settings `base` with what a task's `generation_kwargs` say; `end` is the text of the end of sequence.

    Raises:
        ValueError: a key is unknown, or has a value that no decoder here can follow.
    """
    options = dict(normalize_gen_kwargs(dict(generation_kwargs), DEFAULT_TOKENS))
    until = tuple(handle_stop_sequences(options.pop("until"), eos=end))
    changes = {"max_new_tokens": options.pop("max_gen_toks"), **_drawing(options)}
    for key, value in options.items():
        if key not in _WITHOUT_EFFECT or value != _WITHOUT_EFFECT[key]:
            raise ValueError(
                f"generation_kwargs: {key}={value!r} is not supported; a task may set until, max_gen_toks, do_sample, "
                "temperature and top_p"
            )
    return GenerationRequest(settings=replace(base, **changes), until=until)


def _drawing(options: dict[str, Any]) -> dict[str, float]:
    """Take the options of sampling out of `options`. Greedy decoding ignores them, as it does in transformers."""
    draws, temperature, top_p = options.pop("do_sample"), options.pop("temperature", 0.0), options.pop("top_p", 1.0)
    if not draws:
        for key in _DRAWING:
            options.pop(key, None)
        return {"temperature": 0.0, "top_p": 1.0}
    if not temperature:
        raise ValueError(f"generation_kwargs: do_sample needs a temperature above 0, got {temperature}")
    return {"temperature": float(temperature), "top_p": float(top_p)}


def key_of(arguments: tuple[Any, ...]) -> str:
    """The key of a request in the journal, by its arguments."""
    return str(hash_args(GENERATE, arguments))
