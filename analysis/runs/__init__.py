"""The run store: every measured setting with its rows and its provenance (docs/runs.md). No torch here.

`read_runs(folder)` gives a `RunStore`, whose `table()` has a row for each run; `write_run` adds one, or replaces it.
"""

from __future__ import annotations

from analysis.runs.files import write_run
from analysis.runs.store import RunStore, columns, open_runs, read_runs

__all__ = ["RunStore", "columns", "open_runs", "read_runs", "write_run"]
