"""The page with the scripted checkpoints and a small store of fabricated runs.

    python tests/app/tradeoffs/serve.py FOLDER

writes the store into FOLDER/runs and serves on a free port; its first line is the address.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

if __name__ == "__main__":
    import fabricated
    import scripted_pair

    from app.tradeoffs import run_cache

    folder = Path(sys.argv[1])
    run_cache.RUNS = fabricated.store(folder / "runs")
    (run_cache.RUNS / "broken.parquet").write_bytes(b"no Parquet")
    scripted_pair._serve(folder / "results.jsonl", [])
