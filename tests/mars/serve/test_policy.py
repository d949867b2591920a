"""A busy server: exact decoding changes no text, and `--thresholds` leave τ to those who ask for one."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mars.checkpoint import Checkpoint
from mars.decoding.policy import Policy

TEXTS = ["Tom has 3 apples.", "Repeat the word pear 4 times.", "Hi", "Write a function that adds two numbers."]


def ask_all(server: Any, times: int, **options: Any) -> list[str]:
    def ask(text: str) -> str:
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 40, **options}
        found = server.post(json=body)
        assert found.status_code == 200, found.text
        return str(found.json()["choices"][0]["message"]["content"])

    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(ask, TEXTS * times))


def test_the_exact_policy_changes_no_text_under_load(served: Any, serve: Callable[..., Any]) -> None:
    server = serve(places=3, queue=64)
    assert ask_all(server, 3) == ask_all(served, 1, decoder="autoregressive") * 3
    passes = [line for line in server.get("/metrics").text.splitlines() if line.startswith("mars_passes_total")]
    assert len(passes) > 1, passes


def test_the_knob_moves_only_the_open_threshold(serve: Callable[..., Any], checkpoint: Checkpoint) -> None:
    policy = Policy(checkpoint.engine, (0.5,))
    server = serve(places=1, queue=64, policy=policy, usual={"loose": "relaxed"})
    exact = ask_all(server, 1, decoder="autoregressive")
    ask_all(server, 3)
    assert policy.threshold == 0.5
    assert 'mars_threshold{model="mars-b8"} 1.0' in server.get("/metrics").text, "that of the next request"
    assert ask_all(server, 1, decoder="self_speculative") == ask_all(server, 1, block_size=4) == exact, "asked for"
