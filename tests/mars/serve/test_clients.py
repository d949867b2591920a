"""Real clients: the openai package, sync and async, streaming; curl; and texts that equal the engine's own."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import openai
import pytest

from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.metrics import output_ids

QUESTION = "Which word is the opposite of hot?\nOptions: cold A, fast B, dry C, near D"
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": QUESTION}]}
PROMPTS = (QUESTION, "Tom has 3 apples and buys 4 more. How many has he?", "Write a function that adds two numbers.")
WAYS: tuple[dict[str, Any], ...] = (
    {"decoder": "autoregressive"},
    {"decoder": "self_speculative"},
    {"decoder": "self_speculative", "temperature": 0.8, "top_p": 0.9, "seed": 3},
    {"decoder": "sliding_window", "threshold": 0.95},
    {"decoder": "sliding_window", "threshold": 0.6, "block_size": 4},
    {"decoder": "sliding_window", "threshold": None, "temperature": 0.8, "seed": 4},
    {"decoder": "jacobi"},
)


def own_text(checkpoint: Checkpoint, prompt: str, ids: list[int] | None = None, **way: Any) -> str:
    usual = {"max_new_tokens": 48, "block_size": 8}
    settings = DecodingSettings(**{**usual, **{name: value for name, value in way.items() if name != "decoder"}})
    prompts = [ids or checkpoint.encode(prompt)]
    return checkpoint.decode(output_ids(DECODERS[way["decoder"]](checkpoint.engine, prompts, settings)))


@pytest.fixture
def client(served: Any) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as found:
        yield found


def split(way: dict[str, Any]) -> dict[str, Any]:
    """OpenAI's parameters, and ours in `extra_body`."""
    known = ("temperature", "top_p", "seed")
    theirs = {name: value for name, value in way.items() if name in known}
    return {**theirs, "extra_body": {name: value for name, value in way.items() if name not in known}}


def test_all_decoders_at_once_write_the_engines_texts(served: Any, checkpoint: Checkpoint) -> None:
    cases = [(PROMPTS[number % 3], way) for number, way in enumerate(WAYS)]

    async def ask_all() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:

            async def ask(number: int, prompt: str, way: dict[str, Any]) -> str:
                turns = [{"role": "user", "content": prompt}]
                options = {"model": "mars-b8", "messages": turns, "max_tokens": 48, **split(way)}
                if number % 2:
                    found = await client.chat.completions.create(**options)
                    return str(found.choices[0].message.content)
                stream = await client.chat.completions.create(stream=True, **options)
                return "".join([event.choices[0].delta.content or "" async for event in stream])

            return await asyncio.gather(*(ask(number, *case) for number, case in enumerate(cases)))

    for (prompt, way), text in zip(cases, asyncio.run(ask_all()), strict=True):
        assert text == own_text(checkpoint, prompt, **way), (prompt, way)


def test_an_answer_is_sent_back_as_it_came(client: Any, checkpoint: Checkpoint) -> None:
    first = client.chat.completions.create(model="mars-b8", **CHAT, max_completion_tokens=3)
    assert (first.choices[0].finish_reason, first.usage.completion_tokens) == ("length", 3)
    said, asked = first.choices[0].message, CHAT["messages"]
    ids = checkpoint.encode_chat([*asked, {"role": "assistant", "content": said.content}, *asked])
    for turn in (said, said.model_dump(), {**said.model_dump(), "annotations": []}):
        found = client.chat.completions.create(model="mars-b8", messages=[*asked, turn, *asked], max_tokens=2)
        assert found.usage.prompt_tokens == len(ids)


def test_a_stream_has_events_by_pass_and_usage(served: Any, client: Any) -> None:
    # Not exact decoding, whose controller may propose nothing on a busy machine: each pass then adds one token.
    options = {"include_usage": True, "continuous_usage_stats": True}
    way = {"decoder": "sliding_window", "threshold": 0.6}
    asked = {"model": served.name, **CHAT, "max_tokens": 24}
    with client.chat.completions.create(**asked, stream=True, stream_options=options, extra_body=way) as stream:
        events = list(stream)
    whole = client.chat.completions.create(**asked, extra_body={**way, "records": True})
    assert events[0].choices[0].delta.role == "assistant"
    text = "".join(event.choices[0].delta.content or "" for event in events[:-1])
    assert text == whole.choices[0].message.content
    assert events[-2].choices[0].finish_reason == whole.choices[0].finish_reason in ("stop", "length")
    assert events[-1].choices == []
    assert events[-1].usage == whole.usage
    counts = [event.usage.completion_tokens for event in events[:-1]]
    assert all(before <= after for before, after in pairwise(counts))
    gains = [after - before for before, after in pairwise(counts)]
    assert max(gains) > 1, "no event brought several tokens"
    accepted = [row["accepted"] for record in whole.mars["records"] for row in record["rows"]]
    assert sum(accepted) == whole.usage.completion_tokens
    assert whole.mars["tokens_per_forward"] == pytest.approx(sum(accepted) / sum(map(bool, accepted)))


def test_completions_and_their_log_probabilities(client: Any, checkpoint: Checkpoint) -> None:
    text = "def add(a, b):"
    found = client.completions.create(model="mars-b8", prompt=text, logprobs=2)
    again = client.completions.create(model="mars-b8", prompt=checkpoint.encode_text(text), stream=True)
    choice = found.choices[0]
    assert found.usage.completion_tokens <= 16
    assert "".join(event.choices[0].text for event in again) == choice.text
    assert "".join(choice.logprobs.tokens) == choice.text
    for token, offset in zip(choice.logprobs.tokens, choice.logprobs.text_offset, strict=True):
        assert choice.text[offset:].startswith(token)


def test_stop_strings_across_passes_cut_the_text(client: Any) -> None:
    whole = client.chat.completions.create(model="mars-b8", **CHAT)
    text = whole.choices[0].message.content
    for start in range(1, len(text) - 6, 9):
        stop = text[start : start + 6]
        for stream in (False, True):
            found = client.chat.completions.create(model="mars-b8", **CHAT, stop=["\u2603", stop], stream=stream)
            if stream:
                events = list(found)
                written = "".join(event.choices[0].delta.content or "" for event in events)
                reason = events[-1].choices[0].finish_reason
            else:
                written, reason = found.choices[0].message.content, found.choices[0].finish_reason
                assert found.usage.completion_tokens < whole.usage.completion_tokens
            assert written == text[: text.index(stop)]
            assert reason == "stop"


def test_errors_are_the_clients_own(client: Any) -> None:
    with pytest.raises(openai.NotFoundError) as found:
        client.chat.completions.create(model="gpt-4o", **CHAT)
    assert found.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model="mars-b8", **CHAT, n=2)
    assert wrong.value.param == "n"
    with pytest.raises(openai.BadRequestError, match="context"):
        client.chat.completions.create(model="mars-b8", messages=[{"role": "user", "content": "word " * 2000}])
    assert [model.id for model in client.models.list()] == ["mars-b8"]
    assert client.models.retrieve("mars-b8").id == "mars-b8"


@pytest.fixture(scope="module")
def curl() -> str:
    """The command; in CI it may not be missing (tests/ci_plugin.py)."""
    return shutil.which("curl") or pytest.skip("no curl on this machine: install curl")


@pytest.mark.parametrize("stream", [False, True])
def test_curl_asks_it(served: Any, curl: str, stream: bool) -> None:
    """With the options that docs/serving.md shows: no header says that the body is JSON."""
    body = json.dumps({**CHAT, "max_tokens": 24, "stream": stream})
    command = [curl, "--noproxy", "*", "-sS", "-N", f"{served.url}/v1/chat/completions", "-d", body]
    said = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True).stdout
    if stream:
        *events, done = [line.removeprefix("data: ") for line in said.split("\n\n") if line]
        assert done == "[DONE]"
        text = "".join(json.loads(event)["choices"][0]["delta"].get("content", "") for event in events)
    else:
        text = json.loads(said)["choices"][0]["message"]["content"]
    assert text == own_text(served.checkpoint, QUESTION, decoder="autoregressive", max_new_tokens=24)


def test_metrics_count(serve: Callable[..., Any]) -> None:
    server = serve()
    server.post(json={**CHAT, "decoder": "autoregressive", "max_tokens": 5})
    server.post(json={**CHAT, "decoder": "self_speculative", "max_tokens": 5})
    server.post(json={})
    for path in ("/v1/models/mars-b8", "/v1/models/other", "/v1/nothing"):
        server.get(path)
    text = server.get("/metrics").text
    assert 'mars_requests_total{route="/v1/chat/completions",status="200"} 2.0' in text
    assert 'mars_requests_total{route="/v1/chat/completions",status="400"} 1.0' in text
    assert 'mars_requests_total{route="/v1/models/{name:path}",status="200"} 1.0' in text
    assert 'mars_requests_total{route="/v1/models/{name:path}",status="404"} 1.0' in text
    assert 'mars_requests_total{route="other",status="404"} 1.0' in text
    assert "mars_completion_tokens_total 10.0" in text
    assert "mars_time_to_first_token_seconds_count 2.0" in text
    assert 'mars_passes_total{layout="decode"} 5.0' in text
    assert 'mars_requests_running{model="mars-b8"} 0.0' in text
    assert 'mars_tokens_per_forward_sum{decoder="autoregressive"} 1.0' in text
    assert server.get("/health").json() == {"status": "ok", "running": 0, "waiting": 0}
