"""Each line of the list in docs/serving.md, sent to a server; the list there is the one in the code."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_type_hints

import pytest

from mars.serve import conformance
from mars.serve.conformance import IGNORED_HEADER, PARAMETERS, Parameter, Route
from mars.serve.schema import ChatRequest, CompletionRequest, Request, StreamOptions

PAGE = Path(__file__).parents[3] / "docs" / "serving.md"
BODIES: dict[Route, tuple[str, dict[str, Any]]] = {
    "chat": ("chat/completions", {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2}),
    "completions": ("completions", {"prompt": "Hello", "max_tokens": 2}),
}
KINDS: dict[Route, type[Request]] = {"chat": ChatRequest, "completions": CompletionRequest}
OURS = {"decoder", "threshold", "block_size", "layout", "records"}
VLLM = {
    *("ignore_eos", "repetition_penalty", "length_penalty", "top_k", "min_p", "min_tokens", "use_beam_search"),
    *("early_stopping", "skip_special_tokens", "spaces_between_special_tokens", "include_stop_str_in_output"),
    "stop_token_ids",
}
NOT_IN_THE_CLIENT: dict[Route, set[str]] = {
    "chat": VLLM | {"echo", "best_of", "add_generation_prompt", "continue_final_message"},
    "completions": VLLM | {"safety_identifier", "max_completion_tokens", "metadata"},
}
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


def values_of(table: dict[str, list[Any]], parameter: Parameter, route: Route) -> list[Any]:
    found = table.get(parameter.name, table.get(f"{route} {parameter.name}", []))
    return [*parameter.harmless, *found] if table is ANSWERED else found


each_parameter = pytest.mark.parametrize(
    ("parameter", "route"),
    [
        pytest.param(parameter, route, id=f"{route}-{parameter.name}")
        for parameter in PARAMETERS
        for route in parameter.routes
    ],
)


def send(served: Any, route: Route, parameter: Parameter, value: Any) -> Any:
    path, body = BODIES[route]
    name, _, within = parameter.name.partition(".")
    return served.post(path, json={**body, **NEEDS.get(name, {}), name: {within: value} if within else value})


@each_parameter
def test_examples_are_answered(served: Any, parameter: Parameter, route: Route) -> None:
    for value in values_of(ANSWERED, parameter, route):
        found = send(served, route, parameter, value)
        assert found.status_code == 200, found.text
        warned = found.headers.get(IGNORED_HEADER, "").split(", ")
        takes_no_threshold = parameter.name == "threshold"  # exact decoding, the default, reads none
        ignored = parameter.support == "ignored" and value not in ({}, None)
        assert (parameter.name in warned) == (ignored or takes_no_threshold), value


@each_parameter
def test_wrong_values_are_refused_by_name(served: Any, parameter: Parameter, route: Route) -> None:
    for value in values_of(WRONG, parameter, route):
        found = send(served, route, parameter, value)
        unknown_model = parameter.name == "model" and isinstance(value, str)
        assert found.status_code == (404 if unknown_model else 400), found.text
        error = found.json()["error"]
        assert error["type"] == ("not_found_error" if unknown_model else "invalid_request_error")
        assert 10 < len(error["message"]) < 400
        if value != [10**9]:  # what a model cannot read is found by the model
            assert error["param"] == parameter.name, value


@pytest.mark.parametrize("route", ["chat", "completions"])
def test_a_parameter_lacking_another_is_named(served: Any, route: Route) -> None:
    path, body = BODIES[route]
    given = {"stream_options": {"include_usage": True}, **({"top_logprobs": 2} if route == "chat" else {})}
    found = served.post(path, json={**body, **given})
    assert found.status_code == 200
    assert found.headers[IGNORED_HEADER] == ", ".join(given)
    assert found.json()["choices"][0]["logprobs"] is None


@pytest.mark.parametrize("route", KINDS)
def test_null_is_not_set(served: Any, route: Route) -> None:
    path, body = BODIES[route]
    names = {name.partition(".")[0] for name in conformance.known(route)} - {"threshold", *body}
    options = {"include_usage": None, "continuous_usage_stats": None, "include_obfuscation": None}
    for given in (
        {**dict.fromkeys([*names, "guided_json", "priority"]), **body},
        {**body, "metadata": {}, "stream": True, "stream_options": options},
    ):
        found = served.post(path, json=given)
        assert found.status_code == 200, found.text
        assert IGNORED_HEADER not in found.headers


@pytest.mark.parametrize("route", KINDS)
def test_both_lengths_may_be_given(served: Any, route: Route) -> None:
    path, body = BODIES[route]
    given = {**body, "max_tokens": 9, "max_completion_tokens": 1, "stop": None, "ignore_eos": True}
    found = served.post(path, json=given)
    assert found.json()["usage"]["completion_tokens"] == 1


def test_an_answer_with_empty_fields_is_read(served: Any) -> None:
    empty = {"refusal": None, "tool_calls": [], "annotations": [], "audio": None, "function_call": None, "extra": {}}
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", **empty}]
    answers = [
        served.post(json={"messages": [*turns[:1], turn, *turns[:1]], "max_tokens": 2})
        for turn in (turns[1], {"role": "assistant", "content": [{"type": "text", "text": "b", "annotations": None}]})
    ]
    assert answers[0].json()["usage"] == answers[1].json()["usage"]


@pytest.mark.parametrize("route", KINDS)
def test_list_and_schema_name_the_same_parameters(route: Route) -> None:
    supported = {name for name, found in conformance.known(route).items() if found.support == "supported"}
    assert supported == set(KINDS[route].model_fields)


@pytest.mark.parametrize("route", KINDS)
def test_every_line_has_examples(route: Route) -> None:
    for parameter in conformance.known(route).values():
        assert values_of(ANSWERED, parameter, route), parameter.name
        assert values_of(WRONG, parameter, route) or parameter.support == "ignored", parameter.name


@pytest.mark.parametrize("route", KINDS)
def test_an_unknown_parameter_is_refused_by_name(served: Any, route: Route) -> None:
    path, body = BODIES[route]
    found = served.post(path, json={**body, "temprature": 0.5})
    assert found.status_code == 400
    assert "temprature" in found.json()["error"]["message"]


def test_the_list_has_the_pinned_clients_parameters() -> None:
    """What a new version of the openai package adds has to be treated here too."""
    openai = pytest.importorskip("openai", reason="requirements-eval.txt is not installed")
    from openai.types import completion_create_params as completions
    from openai.types.chat import chat_completion_stream_options_param as stream_options
    from openai.types.chat import completion_create_params as chat

    options = {f"stream_options.{name}" for name in get_type_hints(stream_options.ChatCompletionStreamOptionsParam)}
    ours = {f"stream_options.{name}" for name in StreamOptions.model_fields}
    modules: dict[Route, Any] = {"chat": chat, "completions": completions}
    for route, module in modules.items():
        kinds = (module.CompletionCreateParamsNonStreaming, module.CompletionCreateParamsStreaming)
        theirs = {name for kind in kinds for name in get_type_hints(kind)} | options
        listed = set(conformance.known(route))
        new = sorted(theirs - listed - ours)
        assert not new, (
            f"openai {openai.__version__} has for {route} also {', '.join(new)}: see mars/serve/conformance.py"
        )
        assert listed - theirs == OURS | NOT_IN_THE_CLIENT[route], "no longer, or never, there"


def test_the_page_has_the_list() -> None:
    assert conformance.as_markdown() in PAGE.read_text(encoding="utf-8")
