"""A browser's page of another origin asks the endpoint, as Open WebUI and the like do."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, Error

CHAT = {
    "messages": [{"role": "user", "content": "Tom has 3 apples and buys 4 more. How many has he?"}],
    "max_tokens": 24,
}
KEY = "a-key-of-some-length"
FETCH = """async ([address, body, key]) => {
    const headers = {"content-type": "application/json", authorization: `Bearer ${key}`};
    const answer = await fetch(address, {method: "POST", headers, body: JSON.stringify(body)});
    return [answer.status, await answer.text()];
}"""


@pytest.mark.browser
def test_a_page_of_another_origin_asks_it(served: Any, serve: Callable[..., Any], chromium: Browser) -> None:
    """The page is that of another server; a third one admits nobody."""
    keyed = serve(keys=[KEY], callers={"origins": [served.url]})
    page = chromium.new_page()
    page.goto(f"{served.url}/health")

    def fetch(server: Any, key: str = KEY, **more: Any) -> tuple[int, str]:
        status, text = page.evaluate(FETCH, [f"{server.url}/v1/chat/completions", {**CHAT, **more}, key])
        return status, text

    status, text = fetch(keyed)
    assert (status, json.loads(text)["choices"]) == (200, served.post(json=CHAT).json()["choices"])
    status, text = fetch(keyed, stream=True)
    assert (status, text.endswith("data: [DONE]\n\n")) == (200, True)
    assert [fetch(keyed, "wrong")[0], fetch(keyed, n=2)[0]] == [401, 400]
    with pytest.raises(Error, match="Failed to fetch"):
        fetch(serve())
    page.close()
