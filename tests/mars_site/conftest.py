"""What the tests of the app and of the library have: a browser's tabs, and adapters of a tiny model."""

from tests.app.conftest import _sessions, new_tab, open_tab, visit
from tests.mars.conftest import llama_folder, tiny_llama, write_adapter

__all__ = ["_sessions", "llama_folder", "new_tab", "open_tab", "tiny_llama", "visit", "write_adapter"]
