"""The logic of the page's modules, which needs no browser: `node --test` runs each file of tests beside this one."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from mars import decoders
from tests import standins

HERE = Path(__file__).parent


@pytest.mark.parametrize("file", sorted(HERE.glob("*.test.mjs")), ids=lambda file: file.name.removesuffix(".test.mjs"))
def test_logic_of_the_page(node: str, file: Path) -> None:
    given = {"LENS_DECODERS": decoders.as_json(), "LENS_STANDINS": json.dumps(standins.cases())}
    done = subprocess.run(
        [node, "--test", str(file)], env={**os.environ, **given}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# fail 0" in done.stdout
    assert "# pass 0" not in done.stdout
