"""More prompts in IFEval's form: questions of other sources, with instructions that IFEval's checks know.

IFEval has 541 prompts, too few to be sure of a difference of a few points. Here each question gets one or two
instructions at random, in the checkers' own words, of kinds that an answer of 128 tokens can follow. The adapters have
seen none of the questions in training.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from analysis.benchmarks.questions import read_questions

TASK = "verifiable"
PROMPTS = Path("assets/benchmarks/verifiable/input_data.jsonl")
SEED = 20261125
SHARES = {"gsm8k": 450, "oos_eval, in scope": 700, "oos_eval, out of scope": 700, "spec_bench": 150}
"""The number of questions of each source."""
LONGEST = 200
"""Characters of a question, at most."""
WORDS = (
    *("answer", "because", "best", "better", "change", "clear", "could", "different", "example", "find", "first"),
    *("friend", "good", "help", "home", "however", "important", "know", "large", "little", "money", "morning", "need"),
    *("number", "people", "place", "please", "reason", "really", "simple", "sure", "thank", "time", "today", "water"),
)
"""Everyday words that an answer shall have, or shall not."""
_SAMPLES = ("at least", "less than")

Arguments = Callable[[Random, str], dict[str, Any]]
KINDS: Mapping[str, Arguments] = {
    "change_case:capital_word_frequency": lambda rng, _: {
        "capital_relation": "at least",
        "capital_frequency": rng.randint(1, 4),
    },
    "change_case:english_capital": lambda *_: {},
    "change_case:english_lowercase": lambda *_: {},
    "combination:repeat_prompt": lambda _, question: {"prompt_to_repeat": question},
    "combination:two_responses": lambda *_: {},
    "detectable_content:number_placeholders": lambda rng, _: {"num_placeholders": rng.randint(1, 3)},
    "detectable_content:postscript": lambda rng, _: {"postscript_marker": rng.choice(("P.S.", "P.P.S"))},
    "detectable_format:json_format": lambda *_: {},
    "detectable_format:multiple_sections": lambda rng, _: {
        "section_spliter": rng.choice(("Section", "SECTION")),
        "num_sections": 2,
    },
    "detectable_format:number_bullet_lists": lambda rng, _: {"num_bullets": rng.randint(2, 4)},
    "detectable_format:number_highlighted_sections": lambda rng, _: {"num_highlights": rng.randint(1, 3)},
    "detectable_format:title": lambda *_: {},
    "keywords:existence": lambda rng, _: {"keywords": rng.sample(WORDS, rng.randint(1, 2))},
    "keywords:forbidden_words": lambda rng, _: {"forbidden_words": rng.sample(WORDS, rng.randint(2, 4))},
    "keywords:frequency": lambda rng, _: {
        "relation": "at least",
        "keyword": rng.choice(WORDS),
        "frequency": rng.randint(1, 3),
    },
    "keywords:letter_frequency": lambda rng, _: {
        "let_relation": rng.choice(_SAMPLES),
        "letter": rng.choice("acdfghlmnoprstuwy"),
        "let_frequency": rng.randint(3, 12),
    },
    "length_constraints:nth_paragraph_first_word": lambda rng, _: {
        "num_paragraphs": 2,
        "nth_paragraph": rng.randint(1, 2),
        "first_word": rng.choice(WORDS),
    },
    "length_constraints:number_paragraphs": lambda rng, _: {"num_paragraphs": rng.randint(2, 3)},
    "length_constraints:number_sentences": lambda rng, _: {
        "relation": rng.choice(_SAMPLES),
        "num_sentences": rng.randint(2, 5),
    },
    "length_constraints:number_words": lambda rng, _: {
        "relation": rng.choice(_SAMPLES),
        "num_words": rng.randrange(20, 61, 5),
    },
    "punctuation:no_comma": lambda *_: {},
    "startend:end_checker": lambda rng, _: {
        "end_phrase": rng.choice(
            ("Any other questions?", "Is there anything else I can help with?", "That is all.", "I hope this helps.")
        )
    },
    "startend:quotation": lambda *_: {},
}
"""The instructions, by the name of their check, with the arguments of one, drawn for a question."""
_CLASHES = (
    {"change_case:english_lowercase", "detectable_format:multiple_sections"},
    {"combination:repeat_prompt", "punctuation:no_comma"},
)
"""Pairs that nobody can follow together, beside those that IFEval names."""


def questions_of(data: Path) -> dict[str, list[str]]:
    """The questions of each source, from folders of the names gsm8k, oos_eval and spec_bench.

    They are GSM8K's test set, the requests of oos-eval, and the first turns of Spec-Bench but those from GSM8K.

    Raises:
        ValueError: a file cannot be read.
    """
    try:
        lines = (data / "gsm8k" / "test.jsonl").read_text(encoding="utf-8").splitlines()
        parts = json.loads((data / "oos_eval" / "data_full.json").read_text(encoding="utf-8"))
        requests = [(request, intent == "oos") for part in parts.values() for request, intent in part]
        gsm8k = [json.loads(line)["question"] for line in lines]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the sources in {data} cannot be read: {error}") from error
    asked = read_questions(data / "spec_bench" / "question.jsonl")
    return {
        "gsm8k": gsm8k,
        "oos_eval, in scope": [request for request, outside in requests if not outside],
        "oos_eval, out of scope": [request for request, outside in requests if outside],
        "spec_bench": [each.turns[0] for each in asked if each.category != "math_reasoning"],
    }


def prompts_of_training(conversations: Iterable[Path]) -> set[str]:
    """What users say in these files of conversations, each as its `bare` words.

    Raises:
        ValueError: a file cannot be read.
    """
    try:
        said = [json.loads(line) for path in conversations for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise ValueError(f"the conversations cannot be read: {error}") from error
    return {bare(turn["content"]) for each in said for turn in each["messages"] if turn["role"] == "user"}


def bare(text: str) -> str:
    """The words of a text alone: equal for texts that differ in case, blanks and punctuation."""
    return " ".join(re.findall(r"\w+", text.lower()))


def drawn(
    questions: Mapping[str, Sequence[str]],
    registry: ModuleType,
    seen: Collection[str] = (),
    shares: Mapping[str, int] = SHARES,
    seed: int = SEED,
) -> list[dict[str, Any]]:
    """The lines of the file, the same for the same arguments; `registry` is IFEval's, from `load_registry`.

    No question is there twice, or among the `bare` ones that were `seen`.

    Raises:
        ValueError: a source has fewer questions than its share.
    """
    rng = Random(seed)
    taken = set(seen)
    chosen = []
    for source, share in shares.items():
        left = list(questions[source])
        rng.shuffle(left)
        fitting: list[tuple[str, str]] = []
        for question in left:
            text = " ".join(question.split())
            if len(fitting) < share and len(text) <= LONGEST and bare(text) not in taken:
                taken.add(bare(text))
                fitting.append((source, text))
        if len(fitting) < share:
            raise ValueError(f"{source} must have {share} questions that fit, got {len(fitting)}")
        chosen += fitting
    rng.shuffle(chosen)
    return [_line(key, source, text, registry, rng) for key, (source, text) in enumerate(chosen, 1)]


def _line(key: int, source: str, question: str, registry: ModuleType, rng: Random) -> dict[str, Any]:
    names = [rng.choice(list(KINDS))]
    others = [name for name in KINDS if not _clash(names[0], name, registry.INSTRUCTION_CONFLICTS)]
    if rng.random() < 0.5 and others:
        names.append(rng.choice(others))
    arguments = [KINDS[name](rng, question) for name in names]
    told = [
        registry.INSTRUCTION_DICT[name](name).build_description(**given)
        for name, given in zip(names, arguments, strict=True)
    ]
    return {
        "key": key,
        "prompt": "\n".join([question, *told]),
        "instruction_id_list": names,
        "kwargs": arguments,
        "source": source,
    }


def _clash(one: str, other: str, conflicts: Mapping[str, Collection[str]]) -> bool:
    return other in conflicts[one] or one in conflicts[other] or {one, other} in _CLASHES
