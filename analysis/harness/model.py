"""The model `mars` of lm-evaluation-harness: its `hf` model, except that one of our decoders writes the answers.

    lm_eval.simple_evaluate(MarsLM(checkpoint, "sliding_window", DecodingSettings(threshold=0.95)), tasks=["gsm8k_cot"])

Prompts, chat templates, truncation, stop strings and the likelihood of given texts are those of `hf`, by its own code.
"""

from __future__ import annotations

import json
import logging
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import CacheHook, hash_args
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM
from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs, postprocess_generated_text
from lm_eval.models.utils_hf import stop_sequences_criteria
from lm_eval.utils import simple_parse_args_string
from tqdm import tqdm
from transformers import PreTrainedModel

from analysis.decoding.answers import Ends, answers
from analysis.harness.journal import Journal
from mars import decoders
from mars.checkpoint import Checkpoint
from mars.checkpoint.checkpoint import load
from mars.config import DecodingSettings
from mars.decoding.pair import Pair
from mars.engine import Engine, ModelEngine

GENERATE = "generate_until"
DEFAULT_TOKENS = 256
"""The longest answer of the harness's own models where a task names no length."""
Run = Callable[[list[Instance]], Iterable[tuple[Instance, Any]]]

_DRAWING = ("top_k", "min_p", "typical_p")
_WITHOUT_EFFECT = {"num_beams": 1, "repetition_penalty": 1.0, "use_cache": True}
_MODELS = {"checkpoint": None, "decoder": None, "draft": None, "dtype": "auto", "device": "auto"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """The settings of an answer, and the strings at the first of which it ends."""

    settings: DecodingSettings
    until: tuple[str, ...]


@register_model("mars")
class MarsLM(HFLM):
    """The model. A task may override some of its `settings`; `batch_size` prompts decode at once.

    Results go into the `journal`; those in it are not computed again. The result of a request to generate is an object
    with the columns of an `Answer` and `truncated`: whether the prompt lost its beginning.
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
        self.cache_hook = Hook(self.journal)
        self._engine = checkpoint.engine
        self._decoder = decoder
        self._settings = settings
        self._end: str = self.tok_decode(self.eot_token_id, skip_special_tokens=False)

    @classmethod
    def create_from_arg_obj(cls, arg_dict: dict[str, Any], additional_config: dict[str, Any] | None = None) -> Self:
        """For `simple_evaluate("mars", {"checkpoint": …, "decoder": …})`; further names: draft, dtype, device, and the
        fields of `DecodingSettings`.

        Raises:
            ValueError: one sentence about the argument or file at fault.
            TypeError: an argument is missing or unknown.
        """
        given = {**arg_dict, **{key: value for key, value in (additional_config or {}).items() if value is not None}}
        given.pop("max_batch_size", None)
        batch_size = int(given.pop("batch_size", 1))
        models = {name: given.pop(name, default) for name, default in _MODELS.items()}
        checkpoint = load(Namespace(**models))
        settings = DecodingSettings(**{"block_size": checkpoint.usual_block_size, **given})
        return cls(checkpoint, models["decoder"], settings, batch_size=batch_size)

    @classmethod
    def create_from_arg_string(cls, arg_string: str, additional_config: dict[str, Any] | None = None) -> Self:
        """The same for `"checkpoint=…,decoder=…"`."""
        return cls.create_from_arg_obj(simple_parse_args_string(arg_string), additional_config)

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
        """The text of each answer, up to its first stop string."""
        found = recall(self.journal, GENERATE, requests, lambda fresh: self._generate(fresh, disable_tqdm))
        return [result["text"] for result in found]

    def loglikelihood(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """The log-probability of each given text, and whether greedy decoding would write it; no decoder takes part."""
        run = super().loglikelihood
        found = recall(
            self.journal, "loglikelihood", requests, lambda fresh: zip(fresh, run(fresh, disable_tqdm), strict=True)
        )
        return [(log_probability, greedy) for log_probability, greedy in found]

    def loglikelihood_rolling(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[float]:
        """The log-probability of each whole text; no decoder takes part."""
        run = super().loglikelihood_rolling
        kind = "loglikelihood_rolling"
        return recall(self.journal, kind, requests, lambda fresh: zip(fresh, run(fresh, disable_tqdm), strict=True))

    def _generate(self, requests: list[Instance], disable_tqdm: bool) -> Iterator[tuple[Instance, dict[str, Any]]]:
        alike: dict[str, list[Instance]] = {}
        for request in requests:
            alike.setdefault(json.dumps(request.args[1], sort_keys=True), []).append(request)
        with tqdm(total=len(requests), unit="answer", disable=disable_tqdm) as bar:
            for group in alike.values():
                request = self.request(group[0].args[1])
                limit = self.max_length - request.settings.max_new_tokens
                prompts = [self._encode(request.args[0]) for request in group]
                decoded = answers(
                    self._engine,
                    self._decoder,
                    request.settings,
                    [prompt[-limit:] for prompt in prompts],
                    self.batch_size,
                    partial(self._ends, request),
                )
                for number, answer in decoded:
                    text = postprocess_generated_text(self.tok_decode(answer.ids), list(request.until), None)
                    bar.update()
                    yield (
                        group[number],
                        {
                            **replace(answer, text=text).columns(),
                            "truncated": len(prompts[number]) > limit,
                        },
                    )

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


def recall(journal: Journal, kind: str, requests: Sequence[Instance], run: Run) -> list[Any]:
    """The results of the requests, in order. `run` gets the requests that are not in the journal, equal ones once."""
    keys = [hash_args(kind, request.args) for request in requests]
    fresh = {key: request for key, request in zip(keys, requests, strict=True) if key not in journal}
    if fresh:
        for request, result in run(list(fresh.values())):
            key = hash_args(kind, request.args)
            if key not in journal:
                journal.add(key, result)
    return [journal[key] for key in keys]


class Hook(CacheHook):
    """The hook through which the `hf` model reports each likelihood as soon as it has it."""

    def __init__(self, journal: Journal):
        super().__init__(None)
        self._journal = journal

    def add_partial(self, attr: str, req: Iterable[Any], res: Any) -> None:
        """Keep the result of a likelihood request; `recall` keeps those of generation, with their measurements."""
        if attr != GENERATE:
            self._journal.add(hash_args(attr, req), res)
