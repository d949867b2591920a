"""`python -m tests.performance.soak`: start the endpoint and let many clients ask, leave and send nonsense for minutes.

A quarter of the requests is left midway, a tenth is malformed. Every whole text is compared with what the same question
got alone. Reported are wrong texts, rows that are still held at the end, memory, and the time to the first token.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np

from mars_tasks import TASKS, sample
from tests.performance.served import resident_megabytes, served


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The outcome of a request. Seconds are from its sending; `first` is None where no token came.

    `finish` is the finish reason, None where the stream broke off or was left.
    """

    status: int
    text: str = ""
    tokens: int = 0
    first: float | None = None
    seconds: float = 0.0
    finish: str | None = None
    retry_after: float = 0.0


async def ask(client: httpx.AsyncClient, body: dict[str, Any], *, leave_after: int | None = None) -> Asked:
    """Stream an answer; with `leave_after`, go after so many events."""
    began = time.perf_counter()
    text, tokens, first, finish, events = "", 0, None, None, 0
    told = {**body, "stream": True, "stream_options": {"include_usage": True}}
    async with client.stream("POST", "/v1/chat/completions", json=told) as answer:
        if answer.status_code != 200:
            await answer.aread()
            return Asked(status=answer.status_code, retry_after=float(answer.headers.get("retry-after", 0)))
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line.removeprefix("data: "))
            events += 1
            for choice in event.get("choices", ()):
                said = choice["delta"].get("content", "")
                if said and first is None:
                    first = time.perf_counter() - began
                text += said
                finish = choice["finish_reason"] or finish
            if event.get("usage"):
                tokens = event["usage"]["completion_tokens"]
            if leave_after is not None and events >= leave_after:
                return Asked(status=200, text=text, first=first, seconds=time.perf_counter() - began)
    seconds = time.perf_counter() - began
    return Asked(status=200, text=text, tokens=tokens, first=first, seconds=seconds, finish=finish)


def chat(prompt: str, tokens: int, **options: Any) -> dict[str, Any]:
    """The body of a request."""
    return {"messages": [{"role": "user", "content": prompt}], "max_tokens": tokens, **options}


LEAVE, MALFORMED = 0.25, 0.1
CHECKPOINT = "assets/checkpoints/mars-b8"
NONSENSE: tuple[Any, ...] = (
    *(b"", b"{", b"[]", b"\xff\xfe", b'{"messages": ' + b"[" * 2000, {}, {"messages": []}, {"messages": "Hi"}),
    {"messages": [{"role": "nobody", "content": "Hi"}]},
    *(chat("Hi", tokens) for tokens in (0, -1, 10**9)),
    *(chat("Hi", 8, **{name: value}) for name, value in (("temperature", "hot"), ("top_p", 0), ("n", 2))),
    *(chat("Hi", 8, **{name: value}) for name, value in (("model", "gpt"), ("decoder", "fast"), ("fish", 1))),
    *(chat("Hi", 8, **{name: value}) for name, value in (("stop", [""]), ("seed", 1e30), ("stream", "yes"))),
    chat("word " * 20_000, 8),
)


class Soak:
    """Counts and complaints so far; the clients write to it."""

    def __init__(self, url: str, seed: int, tokens: int) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.first: list[float] = []
        self._url = url.removesuffix("/v1")
        self._seed = seed
        self._tokens = tokens
        self._texts: dict[str, str] = {}

    def client(self) -> httpx.AsyncClient:
        """One that waits as long as it takes."""
        return httpx.AsyncClient(base_url=self._url, timeout=300, trust_env=False)

    async def ask_alone(self, questions: int) -> None:
        """Ask everything once with nobody else there."""
        async with self.client() as client:
            for number in range(questions):
                prompt = sample(list(TASKS)[number % len(TASKS)], self._seed + number).prompt
                found = await ask(client, chat(prompt, self._tokens, decoder="autoregressive"))
                self._texts[prompt] = found.text

    async def visit(self, number: int, until: float) -> None:
        """One request after another, until it is time."""
        dice = random.Random(f"{self._seed} {number}")
        async with self.client() as client:
            while time.monotonic() < until:
                chance = dice.random()
                try:
                    if chance < MALFORMED:
                        await self._nonsense(client, dice)
                    else:
                        await self._question(client, dice, leaves=chance < MALFORMED + LEAVE)
                except httpx.HTTPError as error:
                    self.wrong.append(f"client {number}: {type(error).__name__} {error}")

    async def _question(self, client: httpx.AsyncClient, dice: random.Random, *, leaves: bool) -> None:
        prompt = dice.choice(list(self._texts))
        found = await ask(client, chat(prompt, self._tokens), leave_after=dice.randint(1, 6) if leaves else None)
        if found.first is not None:
            self.first.append(found.first)
        if found.status == 429:
            self.counts["turned away"] += 1
            await asyncio.sleep(min(found.retry_after, 5) * dice.random())
        elif found.status != 200:
            self.wrong.append(f"“{prompt[:40]}…” got status {found.status}")
        elif leaves:
            self.counts["left"] += 1
        else:
            self.counts["whole"] += 1
            if found.text != self._texts[prompt]:
                self.wrong.append(f"“{prompt[:40]}…” got another text than alone: {found.text[:80]!r}")

    async def _nonsense(self, client: httpx.AsyncClient, dice: random.Random) -> None:
        body = dice.choice(NONSENSE)
        sent = {"content": body} if isinstance(body, bytes) else {"json": body}
        found = await client.post("/v1/chat/completions", **sent)
        self.counts["malformed"] += 1
        says = found.json().get("error", {}).get("message", "")
        if found.status_code not in (400, 404, 413, 429) or not says:
            self.wrong.append(f"{str(body)[:60]} got status {found.status_code}: {says[:60]}")

    async def left_behind(self) -> int:
        """Rows and requests that are still there when everybody has gone for some seconds."""
        async with self.client() as client:
            for _ in range(50):
                found = (await client.get("/health")).json()
                if not found["running"] + found["waiting"]:
                    return 0
                await asyncio.sleep(0.1)
        return int(found["running"] + found["waiting"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak the endpoint; 0 when no text was wrong and no row was left."""
    options, for_the_server = parser().parse_known_args(arguments)
    given = [] if "--checkpoint" in for_the_server else ["--checkpoint", CHECKPOINT]
    with served([*given, "--port", "0", *for_the_server], "mars.serve") as (url, pid):
        return asyncio.run(_soak(Soak(url, options.seed, options.tokens), pid, options))


async def _soak(soak: Soak, pid: int, options: argparse.Namespace) -> int:
    await soak.ask_alone(options.questions)
    memory: list[float] = []

    async def watch() -> None:
        while True:
            memory.append(resident_megabytes(pid))
            await asyncio.sleep(1)

    watching = asyncio.create_task(watch())
    began = time.monotonic()
    await asyncio.gather(*(soak.visit(number, began + 60 * options.minutes) for number in range(options.clients)))
    seconds = time.monotonic() - began
    watching.cancel()
    left = await soak.left_behind()
    times = np.quantile(soak.first or [0.0], (0.5, 0.99))
    sys.stdout.write(
        f"{options.clients} clients, {seconds:.0f} s: {dict(soak.counts)}\n"
        f"wrong: {len(soak.wrong)}; rows left: {left}\n"
        f"first token: p50 {times[0]:.2f} s, p99 {times[1]:.2f} s (n = {len(soak.first)})\n"
        f"resident memory: {memory[len(memory) // 4]:.0f} MB after a quarter, {memory[-1]:.0f} MB at the end\n"
    )
    for sentence in soak.wrong[:20]:
        sys.stdout.write(f"  {sentence}\n")
    return 1 if soak.wrong or left else 0


def parser() -> argparse.ArgumentParser:
    """The command line; what it does not know goes to the server."""
    command = argparse.ArgumentParser(
        prog="python -m tests.performance.soak",
        description=__doc__,
        epilog="Further options are those of python -m mars.serve.",
    )
    command.add_argument("--clients", type=int, default=50, metavar="N", help="at once (default: 50)")
    command.add_argument("--minutes", type=float, default=10.0, metavar="M", help="how long (default: 10)")
    command.add_argument("--questions", type=int, default=24, metavar="N", help="different ones (default: 24)")
    command.add_argument("--tokens", type=int, default=48, metavar="N", help="of an answer at most (default: 48)")
    command.add_argument("--seed", type=int, default=1, metavar="S", help="which questions, and who does what when")
    return command


if __name__ == "__main__":
    sys.exit(main())
