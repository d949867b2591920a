"""A Ray cluster to run on: the connection, and what its machines have. Ray is imported when it is asked for."""

from __future__ import annotations

import logging
from pathlib import Path

# Without it the proxy of Ray Serve sends all requests to the replica beside it, until that takes no more.
VARIABLES = {"RAY_SERVE_PROXY_PREFER_LOCAL_NODE_ROUTING": "0"}


def connect(address: str) -> None:
    """Connect to a cluster; ValueError where Ray is not installed, or there is no such cluster."""
    try:
        import ray
    except ImportError as error:
        raise ValueError("--ray needs Ray: pip install -r requirements-ray.txt") from error
    if ray.is_initialized():
        return
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, runtime_env={"env_vars": VARIABLES})
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ValueError(f"there is no Ray cluster at {address!r}: start one with ray start --head") from error


def absolute(source: str | None) -> str | None:
    """A source with an absolute path where it names what is here: workers run in another folder."""
    return str(Path(source).resolve()) if source and Path(source).exists() else source


def gpus_for(device: str) -> float:
    """GPUs of a worker that loads with this --device: one, where the cluster has any and they are not ruled out.

    ValueError where they are asked for and there are none.
    """
    import ray

    there = ray.cluster_resources().get("GPU", 0.0)
    if device == "cuda" and not there:
        raise ValueError("--device cuda needs GPUs, and the cluster has none")
    return 1.0 if there and device != "cpu" else 0.0
