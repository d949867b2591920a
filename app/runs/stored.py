"""The finished runs that come with the app, in files."""

import logging
from functools import cache
from pathlib import Path

from app.runs.run import Run, RunFileError, read

REPLAYS = Path(__file__).parents[2] / "assets" / "replays"
_log = logging.getLogger(__name__)


@cache
def shipped(folder: Path = REPLAYS) -> dict[str, Run]:
    """The runs of a folder by file name without its ending, in the order of the names; broken files are left out."""
    runs = {}
    for path in sorted(folder.glob("*.json")):
        try:
            runs[path.stem] = read(path.read_bytes())
        except (OSError, RunFileError) as error:
            _log.warning("%s is not offered. %s", path.name, error)
    return runs
