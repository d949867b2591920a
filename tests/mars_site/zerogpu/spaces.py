"""Stands in for Hugging Face's `spaces` on ZeroGPU: decorated generators run in a forked process, which is used again.

As there, arguments and values are pickled, and torch says in the app's own process that it has CUDA; to touch it there
is an error. The file `$SPACES_LOG` gets a line for each call: the seconds asked for, and the visitor who pays.
"""

import json
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from pathlib import Path

import gradio
import torch
from gradio.context import LocalContext

_forks = multiprocessing.get_context("fork")
_real = {name: getattr(torch.cuda, name) for name in ("is_available", "device_count", "_lazy_init")}
_one_at_a_time = threading.Lock()


def _touched(*_, **__):
    _log(touched="".join(traceback.format_stack()))
    raise RuntimeError("CUDA was touched outside of a function that spaces.GPU decorates")


torch.cuda.is_available, torch.cuda.device_count, torch.cuda._lazy_init = (lambda: True), (lambda: 1), _touched


def GPU(*, duration):  # noqa: N802
    """Decorate a generator; `duration` gets the same arguments."""

    def decorate(task):
        workers = []

        def call(*arguments):
            request = LocalContext.request.get(None)
            _log(seconds=duration(*arguments), visitor=request and request.headers.get("x-ip-token"))
            with _one_at_a_time:  # there is one GPU
                if not workers:
                    here, there = _forks.Pipe()
                    _forks.Process(target=_serve, args=(task, there), daemon=True).start()
                    workers.append(here)
                workers[0].send_bytes(pickle.dumps(arguments))
                while (found := workers[0].recv())[0] == "value":
                    yield found[1]
            if found[0] == "error":
                raise gradio.Error(found[1])

        return call

    return decorate


def _serve(task, asked):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for name, function in _real.items():
        setattr(torch.cuda, name, function)
    while True:
        try:
            for value in task(*pickle.loads(asked.recv_bytes())):
                asked.send(("value", value))
            asked.send(("end", None))
        except Exception as error:  # noqa: BLE001 - as the real package: its kind alone comes back
            asked.send(("error", type(error).__name__))


def _log(**line):
    with Path(os.environ["SPACES_LOG"]).open("a") as file:
        file.write(json.dumps(line) + "\n")
