"""The page with two pairs to choose between; the scripted checkpoints of the first load when a file is there.

    python tests/app/serve_pairs.py FOLDER

serves on a free port; its first line is the address. The first pair is loaded once FOLDER/ready exists.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

if __name__ == "__main__":
    from scripted_pair import AR_REPLY, MARS_REPLY, Scriptorium

    from app import page
    from app.compare.runner import Runner
    from app.models import pairs
    from app.models.manager import Models
    from app.scheduling import AdmissionQueue, Sessions
    from app.server import options, serving
    from mars.checkpoint import Checkpoint

    ready = Path(sys.argv[1]) / "ready"
    serving.prepare()
    made = Scriptorium.open()
    answer = "Light is scattered by the air, the blue part of it most of all, and so the sky looks blue. " * 4
    known = {
        "base": made.checkpoint("base", answer, masks=False),
        "adapted": made.checkpoint("adapted", answer),
        "ar-sft": made.checkpoint("ar-sft", AR_REPLY, masks=False),
        "mars-b8": made.checkpoint("mars-b8", MARS_REPLY),
    }

    def load(source: str) -> Checkpoint:
        while source in ("base", "adapted") and not ready.exists():
            time.sleep(0.05)
        return known[source]

    models = Models({name: name for name in known}, load, told=lambda source: "reading, 40 %")
    runner = Runner(models, AdmissionQueue(2, 4), Sessions())
    offered = (pairs.real("base", "adapted"), pairs.tiny("ar-sft", "mars-b8"))
    blocks = page.build(runner, offered)
    url = serving.launch(blocks, runner, options.read([]))
    sys.stdout.write(url + "\n")
    sys.stdout.flush()
    serving.stay(blocks)
