"""The order of the examples and the optimizers of training."""

from random import Random

import pytest
import torch
from torch.optim.lr_scheduler import LambdaLR
from transformers import Qwen2ForCausalLM

from mars.training.trainer import BATCHES_PER_BUCKET, MixedLengthBatches, MuonAdamW, make_optimizer

LENGTHS = [Random(index).randint(10, 200) for index in range(1003)]
RATE = 0.01


def test_every_example_once_and_another_order_each_epoch() -> None:
    sampler = MixedLengthBatches(LENGTHS, 4, seed=1)
    first = list(sampler)
    assert sorted(first) == list(range(len(sampler))) == list(range(len(LENGTHS)))
    assert list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first


def test_batches_are_alike_in_length() -> None:
    order = list(MixedLengthBatches(LENGTHS, 4, seed=1))[: 4 * BATCHES_PER_BUCKET]
    batches = [[LENGTHS[index] for index in order[first : first + 4]] for first in range(0, len(order), 4)]
    spread = sum(max(batch) - min(batch) for batch in batches) / len(batches)
    jump = sum(abs(a[0] - b[0]) for a, b in zip(batches[::2], batches[1::2], strict=True)) / (len(batches) / 2)
    assert spread < 10
    assert jump > 30


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_every_parameter_moves(name: str, tiny_model: Qwen2ForCausalLM) -> None:
    model = Qwen2ForCausalLM(tiny_model.config)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    optimizer = make_optimizer(name, model, RATE, 0.0)
    schedule = LambdaLR(optimizer, lambda step: 1 / (1 + step))
    for _ in range(2):
        model(input_ids=torch.tensor([[1, 2, 3, 4]]), labels=torch.tensor([[1, 2, 3, 4]])).loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    assert all(not before[key].equal(value) for key, value in model.state_dict().items())


def test_muon_takes_matrices_and_adamw_the_rest(tiny_model: Qwen2ForCausalLM) -> None:
    optimizer = make_optimizer("muon", tiny_model, RATE, 0.1)
    assert isinstance(optimizer, MuonAdamW)
    muon, adamw = ({id(p) for p in group["params"]} for group in optimizer.param_groups)
    names = {id(p): name for name, p in tiny_model.named_parameters()}
    assert {names[p] for p in muon} == {n for n in names.values() if "_proj.weight" in n}
    assert muon | adamw == set(names)
    assert not muon & adamw
