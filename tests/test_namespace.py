"""The page asks no address for anybody, shown in a network namespace; skipped where the kernel gives none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_server_asks_no_address_for_anybody() -> None:
    network = "ip link set lo up && ip address add 93.184.216.34/32 dev lo && exec "
    if subprocess.run(["unshare", "-rn", "sh", "-c", network + "true"], check=False, capture_output=True).returncode:
        pytest.skip("this user may make no network namespace (unshare -rn), or iproute2 is missing")
    script = f"{network}{sys.executable} -m tests.in_namespace"
    done = subprocess.run(["unshare", "-rn", "sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    by_gradio, calls, asked, lives = json.loads(done.stdout)
    assert by_gradio == 1, "the server can be reached"
    assert calls > 256
    assert asked == 0
    assert lives
