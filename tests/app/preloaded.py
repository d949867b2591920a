"""What a page needs, imported: see `page_process.py`."""

import os

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

import app.page
import app.server.gate  # noqa: F401
from app.models.placement import read_libraries
from tests.app import scripted_pair  # noqa: F401

read_libraries()
