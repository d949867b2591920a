from random import Random

from mars.training.trainer import BATCHES_PER_BUCKET, MixedLengthBatches

LENGTHS = [Random(index).randint(10, 200) for index in range(1003)]


def test_every_example_once_and_another_order_each_epoch() -> None:
    sampler = MixedLengthBatches(LENGTHS, 4, seed=1)
    first = list(sampler)
    assert sorted(first) == list(range(len(LENGTHS)))
    assert len(sampler) == len(LENGTHS)
    assert list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first


def test_batches_are_alike_in_length_and_neighbours_are_not() -> None:
    order = list(MixedLengthBatches(LENGTHS, 4, seed=1))[: 4 * BATCHES_PER_BUCKET]
    batches = [[LENGTHS[index] for index in order[first : first + 4]] for first in range(0, len(order), 4)]
    spread = sum(max(batch) - min(batch) for batch in batches) / len(batches)
    jump = sum(abs(a[0] - b[0]) for a, b in zip(batches[::2], batches[1::2], strict=True)) / (len(batches) / 2)
    assert spread < 10
    assert jump > 30
