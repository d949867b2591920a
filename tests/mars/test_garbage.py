"""Objects of a program's start are left out of garbage collection."""

import gc

from mars.garbage import gc_frozen


def test_what_is_loaded_first_is_never_collected() -> None:
    before = gc.get_freeze_count()
    with gc_frozen():
        assert not gc.isenabled()
        loaded = [[number] for number in range(1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= before + len(loaded)
