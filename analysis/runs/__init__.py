"""The run store: every setting that was measured, with its rows and where it came from (docs/runs.md). No torch here.

`read_runs(folder)` gives a `RunStore`, whose `table()` has a row for each run; `write_run` adds one, or replaces it.
"""

from __future__ import annotations

from analysis.runs.files import write_run
from analysis.runs.store import RunStore, columns, open_runs, read_runs

__all__ = ["RunStore", "columns", "open_runs", "read_runs", "write_run"]
