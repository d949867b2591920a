import threading
from unittest.mock import Mock

import pytest

from app.models import placement
from app.models.placement import Loader


def test_early_comers_ask_for_the_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "read_libraries", Mock(side_effect=KeyError))
    with pytest.raises(KeyError):
        Loader("cpu")("any")


def test_nobody_gets_them_before_they_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one thread reads, others wait."""
    held = threading.Lock()
    monkeypatch.setattr(placement, "_one_at_a_time", held)
    held.acquire()
    other = threading.Thread(target=placement.read_libraries)
    other.start()
    other.join(0.2)
    assert other.is_alive()
    held.release()
    other.join(60)
    assert not other.is_alive()
