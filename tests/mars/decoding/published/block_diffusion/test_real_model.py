"""Block diffusion on a real model against a twin that recomputes everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from transformers import PreTrainedModel

from mars.config import DecodingSettings
from mars.engine import ModelEngine
from mars.metrics import output_ids
from mars.records import ForwardPass

Run = Callable[..., list[ForwardPass]]


def twin(
    model: PreTrainedModel, prompt: list[int], size: int, threshold: float | None, count: int
) -> Iterator[list[tuple[int, float]]]:
    """Token and probability of each position of the next block when it is full, everything recomputed in every pass."""
    mask, text = 3, list(prompt)
    while len(text) - len(prompt) < count:
        start = len(text)
        end = (start // size + 1) * size
        text += [mask] * (end - start)
        block = torch.arange(end) // size
        sees = block[None] <= block[:, None]
        kept: dict[int, tuple[int, float]] = {}
        while len(kept) < end - start:
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([text]), attention_mask=sees[None, None]).logits[0]
            logits[:, mask] = -torch.inf
            best = logits.softmax(-1).max(-1)
            said = {place: float(best.values[place]) for place in range(start, end) if place not in kept}
            surest = max(said, key=lambda place: said[place])
            for place, score in said.items():
                if place == surest or (threshold is not None and score >= threshold):
                    text[place] = int(best.indices[place])
                    kept[place] = (text[place], score)
        yield [kept[place] for place in sorted(kept)]


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize(("size", "threshold"), [(4, None), (4, 0.3), (1, None), (7, 0.2)])
def test_a_real_model_writes_what_the_twin_does(
    run: Run, tiny_model: PreTrainedModel, size: int, threshold: float | None, graphs: bool
) -> None:
    engine = ModelEngine(tiny_model, stop_token_ids=frozenset(), diffusion_mask_id=3, graphs=graphs)
    prompts = [[9, 10, 11, 12, 13], [14], [15] * 30, [16, 17, 18, 19]]
    options = {"threshold": threshold, "block_size": size, "max_new_tokens": 21}
    cached, recomputed = (run(engine, prompts, DecodingSettings(**options, use_cache=kept)) for kept in (True, False))
    assert "prefill" not in {record.phase for record in recomputed}
    for row, prompt in enumerate(prompts):
        blocks = twin(tiny_model, prompt, size, threshold, 21)
        expected = [pair for block in blocks for pair in block][:21]
        alone = run(engine, [prompt], DecodingSettings(**options))
        for records, number in ((cached, row), (recomputed, row), (alone, 0)):
            found = [
                (proposal.token_id, proposal.score)
                for record in records
                for part in record.rows
                if part.row == number
                for proposal in part.proposals[: part.accepted]
            ]
            assert [token for token, _ in found] == [token for token, _ in expected] == output_ids(records, number)
            assert [score for _, score in found] == pytest.approx([score for _, score in expected], rel=1e-3)
