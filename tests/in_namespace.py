"""The page beside a server at a public address, in a network that has nothing else: how often that server was asked.

    unshare -rn sh -c "ip link set lo up && ip address add 93.184.216.34/32 dev lo && python -m tests.in_namespace"

Gradio itself refuses addresses of this machine, so only a public one shows what else would be asked.
"""

import json
import subprocess
import sys
import tempfile
from contextlib import suppress

from gradio.processing_utils import ssrf_protected_download

from tests.app.test_hostile import Door, Listener, ask_for_files

ADDRESS = "93.184.216.34"

if __name__ == "__main__":
    listener = Listener(ADDRESS)
    with tempfile.TemporaryDirectory() as folder:
        with suppress(Exception):  # the listener only counts
            ssrf_protected_download(listener.url, folder)
        by_gradio = len(listener.asked)
        command = [sys.executable, "-m", "tests.app.scripted_pair", f"{folder}/results"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as page:
            door = Door(page.stdout.readline().strip())
            posts = ask_for_files(door, listener.url)
            lives = door.lives()
            page.terminate()
    listener.close()
    json.dump([by_gradio, posts, len(listener.asked) - by_gradio, lives], sys.stdout)
