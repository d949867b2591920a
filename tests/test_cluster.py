"""A Ray cluster of two nodes: an endpoint that grows, is updated and loses replicas, and a sweep that loses a node."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from tqdm import tqdm

from analysis.runs import read_runs
from analysis.sweeps.cluster import Cluster
from analysis.sweeps.jobs import turns_of
from analysis.sweeps.plan import SweepPlan, read_plan
from analysis.sweeps.sweep import Sweep, Swept
from analysis.sweeps.work import Work
from mars.cluster import connect
from mars.provenance import provenance
from mars.serve.__main__ import main

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # those of Ray
    pytest.mark.timeout(600),
    pytest.mark.slow,
]
CHECKPOINT = Path(__file__).parents[1] / "assets" / "checkpoints" / "mars-b8"
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Tom has 3 apples."}], "max_tokens": 200}
MEMORY = 100 * 2**20
PLAN = f"""
schema = 1
[[group]]
name = "small"
checkpoints = ["{CHECKPOINT}"]
decoders = ["sliding_window"]
thresholds = ["none", 0.9]
tasks = ["word_problems"]
problems = 6
seed = 1
batch_sizes = [2]
chunk = 2
max_new_tokens = 24
"""


@pytest.fixture(scope="module")
def nodes(one_thread: None) -> Iterator[Any]:
    """A cluster of two nodes on this machine, which this process is connected to."""
    reason = "Ray is not installed: pip install -r requirements-ray.txt"
    ray = pytest.importorskip("ray", reason=reason)
    from ray.cluster_utils import Cluster as Nodes

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": MEMORY})
    nodes.add_node(num_cpus=2, object_store_memory=MEMORY)
    connect(nodes.address)
    yield nodes
    from ray import serve

    serve.shutdown()
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture(scope="module")
def deploy(nodes: Any) -> Callable[..., str]:
    """`deploy(name, *options)`: two replicas of the tiny model, unless these options differ; their address."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]

    def deploy(name: str, *others: str) -> str:
        options = ["--ray", nodes.address, "--port", str(port), "--replicas", "2", "--min-replicas", "2", *others]
        assert main(["--checkpoint", str(CHECKPOINT), "--name", name, "--threads", "1", *options]) == 0
        return f"http://127.0.0.1:{port}"

    return deploy


@pytest.fixture(scope="module")
def small(deploy: Callable[..., str]) -> str:
    """The address of one replica with one place, beside which there may be another."""
    return deploy("second", "--min-replicas", "1", "--places", "1")


def events(url: str, first: Callable[[], object] = lambda: None) -> tuple[str, bool]:
    """The text of a streamed answer, and whether it came to its end; `first` is called at its first event."""
    text, ended = "", False
    with httpx.stream("POST", f"{url}/v1/chat/completions", json={**CHAT, "stream": True}, timeout=120) as answer:
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            first()
            if line == "data: [DONE]":
                ended = True
            elif line:
                [choice] = json.loads(line.removeprefix("data: "))["choices"]
                text += choice["delta"].get("content", "")
    return text, ended


def replicas() -> list[Any]:
    """The replicas that there are, those included that start or end."""
    import ray

    named = [one for one in ray.util.list_named_actors(all_namespaces=True) if "REPLICA::mars" in one["name"]]
    return [ray.get_actor(one["name"], namespace=one["namespace"]) for one in named]


def running() -> int:
    """The number of replicas that answer."""
    from ray import serve

    return serve.status().applications["mars"].deployments["mars"].replica_states.get("RUNNING", 0)


def until(condition: Callable[[], bool], seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never came true"
        time.sleep(0.2)


def test_replicas_stream_die_and_are_updated(deploy: Callable[..., str], request: pytest.FixtureRequest) -> None:
    import ray

    url = deploy("first")
    whole = httpx.post(f"{url}/v1/chat/completions", json=CHAT, timeout=120)
    text = whole.json()["choices"][0]["message"]["content"]
    assert events(url) == (text, True)
    assert httpx.get(f"{url}/health").json()["status"] == "ok"
    assert httpx.post(f"{url}/v1/chat/completions", json={"messages": 1}).status_code == 400

    begun, lock = threading.Barrier(7), threading.local()

    def read(_: int) -> tuple[str, bool] | str:
        def first() -> None:
            if not hasattr(lock, "waited"):
                lock.waited = True
                begun.wait(60)

        try:
            return events(url, first)
        except httpx.TransportError as error:
            return type(error).__name__

    with ThreadPoolExecutor(6) as threads:
        reading = [threads.submit(read, number) for number in range(6)]
        begun.wait(60)
        ray.kill(replicas()[0])
        found = [one.result() for one in reading]
    assert (text, True) in found, "those of the other replica come to their end"
    assert all(one == (text, True) or isinstance(one, str) for one in found), "none is cut off in silence"

    ended = threading.Event()

    def ask(_: int) -> list[int]:
        statuses = []
        while not ended.is_set():
            statuses.append(httpx.post(f"{url}/v1/chat/completions", json=CHAT, timeout=120).status_code)
        return statuses

    with ThreadPoolExecutor(2) as threads:
        asking = [threads.submit(ask, number) for number in range(2)]
        assert request.getfixturevalue("small") == url
        ended.set()
        statuses = [status for one in asking for status in one.result()]
    assert len(statuses) > 2
    assert set(statuses) == {200}
    assert httpx.get(f"{url}/v1/models").json()["data"][0]["id"] == "second"


def test_a_replica_is_added_under_load(small: str) -> None:
    until(lambda: len(replicas()) == running() == 1)
    text, _ = events(small)
    grown = threading.Event()

    def read(_: int) -> set[tuple[str, bool]]:
        found = set()
        while not grown.is_set():
            found.add(events(small))
        return found | {events(small)}

    with ThreadPoolExecutor(4) as threads:
        reading = [threads.submit(read, number) for number in range(4)]
        try:
            until(lambda: running() == 2)
        finally:
            grown.set()
        assert [one.result() for one in reading] == [{(text, True)}] * 4


class Loses(tqdm):
    """Takes a node away once the first chunk is there."""

    def __init__(self, lose: Callable[[], object]) -> None:
        super().__init__(disable=True)
        self._lose = lose
        self.problems = 0

    def update(self, n: float = 1) -> None:
        if not self.problems:
            self._lose()
        self.problems += n


def sweep(plan: SweepPlan, folder: Path, bar: tqdm, cluster: Cluster | None) -> Swept:
    told = {**provenance("python -m analysis sweep"), "threads": 1, "processes": 1, "plan": plan.name}
    work = Work(folder=folder)
    return Sweep(turns=turns_of(plan), work=work, provenance=told, bar=bar, cluster=cluster).run()


def test_a_sweep_losing_a_node_loses_no_problem(nodes: Any, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(PLAN)
    plan = read_plan(tmp_path / "small.toml")
    lost = nodes.add_node(num_cpus=2, object_store_memory=MEMORY)
    cluster = Cluster.at(nodes.address)
    bar = Loses(lambda: nodes.remove_node(lost, allow_graceful=False))
    spread = sweep(plan, tmp_path / "spread", bar, cluster)
    assert len(spread.run) == 2
    assert bar.problems == 12
    here = sweep(plan, tmp_path / "here", tqdm(disable=True), None)
    assert here.run == spread.run
    for run in here.run:
        rows = [read_runs(tmp_path / name).rows(run).drop(columns=["seconds"]) for name in ("here", "spread")]
        assert rows[0].equals(rows[1])
        assert sorted(rows[1]["number"]) == list(range(6))
    assert sweep(plan, tmp_path / "spread", tqdm(disable=True), cluster).skipped == spread.run


def test_what_cannot_be_done_is_said(nodes: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--checkpoint", str(CHECKPOINT), "--ray", nodes.address]
    assert main([*options, "--min-replicas", "2"]) == 2
    assert main([*options, "--device", "cuda"]) == 2
    says = capsys.readouterr().err
    assert "--min-replicas must be at most --replicas" in says
    assert "the cluster has none" in says
    (tmp_path / "timed.toml").write_text(PLAN.replace("chunk = 2", "chunk = 2\ntimed = true"))
    with pytest.raises(ValueError, match="slow one another"):
        sweep(read_plan(tmp_path / "timed.toml"), tmp_path, tqdm(disable=True), Cluster.at(nodes.address))
