"""Runs where a GPU would write them, and one in this process beside: prints what came of each."""

import json
import sys
import time
from types import SimpleNamespace

import spaces  # noqa: F401 - first, as in app.py
import torch
from gradio.context import LocalContext

from app.compare import board, problems, sweep
from app.compare.board import Plan
from app.compare.comparison import Question
from app.compare.lane_choice import LaneChoice
from app.compare.runner import Runner
from app.models.manager import Models
from app.models.pairs import TINY_SOURCES
from app.models.placement import Loader
from app.scheduling import AdmissionQueue, Sessions
from mars_site.zerogpu import ZeroRunner

PAIR = [LaneChoice(checkpoint="ar", decoder="autoregressive"), LaneChoice(checkpoint="mars")]


def written(runner, pace=0.0, act=lambda: None, threshold=0.6):
    prompt = problems.find(*problems.EXAMPLES[0][1:]).prompt
    identity = runner.start("me", Question(prompt=prompt, threshold=threshold, max_new_tokens=48), PAIR, pace)
    stream = runner.event_streams.find(identity)
    while stream.behind(0).count("\n") < 16 and not stream.closed:
        time.sleep(0.01)
    act()
    run = stream.result(120)
    rows = [lane.records[-1].rows[0].threshold for lane in run.lanes]
    return [lane.text for lane in run.lanes], rows, [lane.finish_reason for lane in run.lanes]


def last(runner, identity):
    stream = runner.event_streams.find(identity)
    stream.result(120)
    return json.loads(stream.behind(0).splitlines()[-1])["state"]


if __name__ == "__main__":
    LocalContext.request.set(SimpleNamespace(headers={"x-ip-token": "visitor"}))
    runner = ZeroRunner(Models(TINY_SOURCES, None), AdmissionQueue(), Sessions())
    question = Question(prompt="What is 2 + 3?", threshold=0.9, max_new_tokens=16)
    found = {
        "whole": written(runner),
        "steered": written(runner, 20.0, lambda: setattr(runner.sessions.live("me").slider, "threshold", 0.99)),
        "stopped": written(runner, 20.0, lambda: runner.sessions.live("me").stop()),
        "sweep": last(runner, sweep.start(runner, "me", question, PAIR)),
        "board": last(runner, board.start(runner, "me", Plan(count=5, first=1, max_new_tokens=16), PAIR, 0.9)),
        "loaded": runner.models.state()["loaded"],
        "here": written(Runner(Models(TINY_SOURCES, Loader("cpu", 1)), AdmissionQueue(), Sessions())),
    }
    try:
        torch.zeros(1, device="cuda")
    except RuntimeError as error:
        found["outside"] = str(error)
    json.dump(found, sys.stdout)
