"""Each line of the list in docs/serving.md, sent to a server; the list there names what the code knows."""

import re
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from mars.serve.conformance import IGNORED, IGNORED_HEADER, REFUSED
from mars.serve.schema import ChatRequest, CompletionRequest, Request, StreamOptions

PAGE = Path(__file__).parents[3] / "docs" / "serving.md"
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("chat/completions", {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2}),
    "completions": ("completions", {"prompt": "Hello", "max_tokens": 2}),
}
KINDS: dict[str, type[Request]] = {"chat": ChatRequest, "completions": CompletionRequest}
MESSAGES = [{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": "Hello"}]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
ANSWERED: dict[str, list[Any]] = {
    "model": [None],
    "messages": [MESSAGES, PARTS],
    "prompt": ["Hello", ["Hello"], [5, 6, 7], [[5, 6, 7]]],
    "max_completion_tokens": [4, None],
    "max_tokens": [4, None],
    "temperature": [0, 0.7, 2],
    "top_p": [0.5, 1],
    "seed": [7, -7, 2**63 - 1],
    "stop": ["\n\n", ["a", "b"], None],
    "n": [1],
    "stream": [True, False],
    "stream_options": [{"include_usage": True}, {"include_usage": True, "continuous_usage_stats": True}],
    "chat logprobs": [True, False],
    "top_logprobs": [2],
    "completions logprobs": [0, 2, None],
    "decoder": ["autoregressive"],
    "threshold": [0.9, None],
    "block_size": [4],
    "layout": ["quadratic", None],
    "records": [True],
    "user": ["somebody"],
    "safety_identifier": ["somebody"],
    "metadata": [{"a": "b"}],
    "store": [True],
    "service_tier": ["auto"],
    "prompt_cache_key": ["k"],
    "prompt_cache_options": [{"ttl": "30m"}],
    "prompt_cache_retention": ["24h"],
    "prediction": [{"type": "content", "content": "x"}],
    "reasoning_effort": ["low"],
    "verbosity": ["low"],
    "parallel_tool_calls": [True],
    "stream_options.include_obfuscation": [True],
    "ignore_eos": [True],
}
"""Values of each parameter that are answered; of a refused one the harmless ones are."""
WRONG: dict[str, list[Any]] = {
    "model": ["gpt-4o", "", "../mars-b8", "\U0001f600" * 200, 5],
    "messages": [
        *(None, 7, "Hello", [], [7], [None], {"role": "user"}, [{"role": "user", "content": 7}]),
        [{"role": "tool", "content": "x"}],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}],
    ],
    "prompt": ["", [], ["one", "two"], [-1], [10**9], 7],
    "max_completion_tokens": [0, -1, 10**9, "4", 2.5],
    "max_tokens": [0, -1, 1.5, 10**9, "4", True, [], {}],
    "temperature": [-1, 2.1, "hot", True, [1]],
    "top_p": [0, 1.5, -0.1, "all"],
    "seed": [2**63, 1.5, "7", [1]],
    "stop": ["", [""], ["a"] * 5, [["a"]], 3],
    "n": [0, 2, 1.5],
    "stream": ["yes", 1, [True]],
    "stream_options": [{"include_usage": "yes"}, {"include_obfuscation": "yes"}, {"other": True}],
    "chat logprobs": ["yes", 3],
    "top_logprobs": [-1, 21],
    "completions logprobs": [-1, 6, True],
    "decoder": ["fast", "", "a" * 10_000, ["autoregressive"], 1],
    "threshold": [-0.1, 1.1, "high"],
    "block_size": [0, 65, -8, "8", 4.5],
    "layout": ["round", 3],
    "records": ["yes"],
    "repetition_penalty": [1.1],
    "length_penalty": [0.5],
    "top_k": [3],
    "min_p": [0.1],
    "min_tokens": [4],
    "use_beam_search": [True],
    "early_stopping": [True],
    "skip_special_tokens": [False],
    "spaces_between_special_tokens": [False],
    "include_stop_str_in_output": [True],
    "stop_token_ids": [[5]],
    "add_generation_prompt": [False],
    "continue_final_message": [True],
    "frequency_penalty": [0.5],
    "presence_penalty": [0.5],
    "logit_bias": [{"5": 1}],
    "best_of": [2],
    "echo": [True],
    "suffix": ["end"],
    "response_format": [{"type": "json_object"}],
    "tools": [[{"type": "function"}]],
    "tool_choice": ["required"],
    "functions": [[{"name": "f"}]],
    "function_call": [{"name": "f"}],
    "modalities": [["text", "audio"]],
    "moderation": [{"model": "omni-moderation-latest"}],
    "audio": [{"voice": "alloy"}],
    "web_search_options": [{}],
}
"""Values that are refused with a sentence."""
NEEDS = {"top_logprobs": {"logprobs": True}, "stream_options": {"stream": True}}


CALLS = [(name, "chat") for name in [*ChatRequest.model_fields, *sorted(IGNORED), *REFUSED]]
CALLS += [(one, "completions") for one in ("prompt", "logprobs", "max_tokens", "stop", "suffix", "echo", "ignore_eos")]


def values_of(table: dict[str, list[Any]], name: str, route: str) -> list[Any]:
    found = table.get(name, table.get(f"{route} {name}", []))
    return [*REFUSED.get(name, ("", ()))[1], *found] if table is ANSWERED else found


def send(served: Any, route: str, parameter: str, value: Any) -> Any:
    path, body = BODIES[route]
    name, _, within = parameter.partition(".")
    return served.post(path, json={**body, **NEEDS.get(name, {}), name: {within: value} if within else value})


@pytest.mark.parametrize(("name", "route"), CALLS)
def test_each_parameter_does_as_listed(served: Any, name: str, route: str) -> None:
    good, bad = values_of(ANSWERED, name, route), values_of(WRONG, name, route)
    assert good
    assert bad or name in IGNORED
    for value in good:
        found = send(served, route, name, value)
        assert found.status_code == 200, found.text
        warned = name in found.headers.get(IGNORED_HEADER, "").split(", ")
        assert warned == (name in IGNORED or name == "threshold"), value  # exact decoding, the default, reads no τ
    for value in bad:
        found = send(served, route, name, value)
        unknown_model = name == "model" and isinstance(value, str)
        assert found.status_code == (404 if unknown_model else 400), found.text
        error = found.json()["error"]
        assert error["type"] == ("not_found_error" if unknown_model else "invalid_request_error")
        assert 10 < len(error["message"]) < 400
        assert error["param"] == name, value


@pytest.mark.parametrize("route", KINDS)
def test_a_parameter_lacking_another_is_named(served: Any, route: str) -> None:
    path, body = BODIES[route]
    given = {"stream_options": {"include_usage": True}, **({"top_logprobs": 2} if route == "chat" else {})}
    found = served.post(path, json={**body, **given})
    assert found.status_code == 200
    assert found.headers[IGNORED_HEADER] == ", ".join(given)
    assert found.json()["choices"][0]["logprobs"] is None


@pytest.mark.parametrize("route", KINDS)
def test_null_is_not_set(served: Any, route: str) -> None:
    path, body = BODIES[route]
    names = {name.partition(".")[0] for name in (*KINDS[route].model_fields, *IGNORED, *REFUSED)} - {"threshold", *body}
    options = {"include_usage": None, "continuous_usage_stats": None, "include_obfuscation": None}
    for given in (
        {**dict.fromkeys([*names, "guided_json", "priority"]), **body},
        {**body, "metadata": {}, "frequency_penalty": 0.0, "stream": True, "stream_options": options},
        {**body, "max_tokens": 9, "max_completion_tokens": 1, "stop": None},
    ):
        found = served.post(path, json=given)
        assert found.status_code == 200, found.text
        assert IGNORED_HEADER not in found.headers
    assert found.json()["usage"]["completion_tokens"] == 1, "the newer of two lengths counts"
    found = served.post(path, json={**body, "temprature": 0.5})
    assert found.status_code == 400
    assert "temprature" in found.json()["error"]["message"]


def test_an_answer_with_empty_fields_is_read(served: Any) -> None:
    empty = {"refusal": None, "tool_calls": [], "annotations": [], "audio": None, "function_call": None, "extra": {}}
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", **empty}]
    answers = [
        served.post(json={"messages": [*turns[:1], turn, *turns[:1]], "max_tokens": 2})
        for turn in (turns[1], {"role": "assistant", "content": [{"type": "text", "text": "b", "annotations": None}]})
    ]
    assert answers[0].json()["usage"] == answers[1].json()["usage"]


@pytest.mark.parametrize("route", KINDS)
def test_the_pinned_clients_parameters_are_known(route: str) -> None:
    """What a new version of the openai package adds has to be treated here too."""
    openai = pytest.importorskip("openai", reason="requirements-eval.txt is not installed")
    from openai.types import completion_create_params as completions
    from openai.types.chat import chat_completion_stream_options_param as stream_options
    from openai.types.chat import completion_create_params as chat

    module: Any = {"chat": chat, "completions": completions}[route]
    kinds = (module.CompletionCreateParamsNonStreaming, module.CompletionCreateParamsStreaming)
    theirs = {name for kind in kinds for name in get_type_hints(kind)}
    new = sorted(theirs - set(KINDS[route].model_fields) - IGNORED - set(REFUSED))
    assert not new, f"openai {openai.__version__} has for {route} also {', '.join(new)}: see mars/serve/conformance.py"
    assert set(get_type_hints(stream_options.ChatCompletionStreamOptionsParam)) <= set(StreamOptions.model_fields)


def test_the_page_lists_every_parameter() -> None:
    parts = re.findall(r"^- \*\*(\w+)\*\*(.*?)(?=^- |\n\n)", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    listed = {(name, part) for part, text in parts for name in re.findall(r"`([\w.]+)`", text)}
    supported = {(name, "supported") for kind in KINDS.values() for name in kind.model_fields}
    supported |= {("include_usage", "supported"), ("continuous_usage_stats", "supported")}
    assert listed == supported | {(name, "ignored") for name in IGNORED} | {(name, "refused") for name in REFUSED}
