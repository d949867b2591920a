"""Many prompts in few places, decoded as one run would be."""

from __future__ import annotations

from analysis.decoding.continuous import run
from mars.config import DecodingSettings
from mars.scripted import ScriptedModel


def test_layout_auto_is_chosen_pass_by_pass() -> None:
    settings = DecodingSettings(block_size=4, max_new_tokens=60)
    records = run(ScriptedModel([[5, 6, 7, 8] * 15] * 3), "self_speculative", settings, [[3, 4]] * 3, places=2)
    accepted = [row.accepted for record in records for row in record.rows]
    assert sum(accepted) == 3 * 60
    assert max(accepted) > 4, "more than the three drafts of masks: copies"
