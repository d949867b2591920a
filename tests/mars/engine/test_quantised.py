"""Products in 8 bits: close to the real ones, the same bits whoever shares the call, and exact decoding on them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mars.checkpoint import CheckpointError, load_checkpoint
from mars.checkpoint.checkpoint import choose_dtype
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.engine import tiles
from mars.engine.compiled import Compiled
from mars.engine.linear import Head
from mars.engine.quantised import MOST, Quantised, Steps, missing, rounded, scaled
from mars.metrics import output_ids

CPU, BFLOAT16 = torch.device("cpu"), torch.bfloat16
CHECKPOINT = Path(__file__).parents[3] / "assets" / "checkpoints" / "mars-b8"
pytestmark = pytest.mark.skipif(missing(CPU, BFLOAT16) is not None, reason=str(missing(CPU, BFLOAT16)))
STEPS = pytest.mark.parametrize(
    "steps", [(rounded, scaled), Compiled(4, 2, 16, BFLOAT16, 1e-5).steps], ids=["PyTorch", "compiled"]
)


@pytest.fixture(autouse=True)
def seeded(one_thread: None) -> None:
    torch.manual_seed(0)


@STEPS
def test_rows_are_rounded_to_the_nearest_whole_number(steps: Steps) -> None:
    x_TI = torch.randn(7, 96).to(BFLOAT16)
    x_TI[3] = 0
    whole_TI, scales_T = steps[0](x_TI)
    assert whole_TI.dtype == torch.int8
    assert whole_TI.abs().amax(1).tolist() == [MOST, MOST, MOST, 0, MOST, MOST, MOST]
    off_TI = (whole_TI * scales_T[:, None] - x_TI.float()).abs()
    assert (off_TI <= scales_T[:, None] * 0.5001).all()
    assert torch.equal(steps[1](whole_TI.float(), scales_T, BFLOAT16), (whole_TI * scales_T[:, None]).to(BFLOAT16))


@STEPS
def test_a_product_is_close_and_its_rows_do_not_depend_on_each_other(steps: Steps) -> None:
    weight_OI, bias_O = torch.randn(80, 96).to(BFLOAT16), torch.randn(80).to(BFLOAT16)
    x_TI = torch.randn(70, 96).to(BFLOAT16)
    product = Quantised(weight_OI, bias_O, steps)
    found_TO = product(x_TI)
    real_TO = x_TI.float() @ weight_OI.float().t() + bias_O.float()
    assert (found_TO.float() - real_TO).norm() < 0.02 * real_TO.norm()
    for rows in (1, 2, 3, 16, 33):
        assert torch.equal(torch.cat([product(part_TI) for part_TI in x_TI.split(rows)]), found_TO), rows
    sum_TO = torch.ones(70, 80)
    product.add_to(sum_TO, x_TI)
    assert torch.equal(sum_TO, 1 + found_TO.float())


@pytest.mark.parametrize("inputs", [96, 1536])
def test_inputs_without_a_sign_give_the_same_sums(inputs: int) -> None:
    """oneDNN is slow with a sign where there is no AMX, and Quantised shifts them."""
    x_TI = torch.cat((torch.randn(7, inputs), torch.ones(1, inputs))).to(BFLOAT16)  # the last row has the largest sums
    product = Quantised(torch.cat((torch.randn(15, inputs), -torch.ones(1, inputs))).to(BFLOAT16))
    found = []
    for product._shift in (0, 128):
        found.append(product(x_TI))
    assert torch.equal(*found)


@pytest.mark.parametrize("bias_O", [None, torch.full((80,), 3.0, dtype=BFLOAT16)], ids=["plain", "with a bias"])
def test_shed_weights_come_back_rounded(bias_O: torch.Tensor | None) -> None:
    weight_OI = torch.randn(80, 96).to(BFLOAT16)
    product = Quantised(weight_OI, bias_O)
    assert torch.equal(product.plain_weight(), weight_OI)
    product.shed()
    steps_O1 = weight_OI.float().abs().amax(1, keepdim=True) / MOST
    off_OI = (product.plain_weight().float() - weight_OI.float()).abs()
    assert (off_OI <= steps_O1 * 0.5 + weight_OI.float().abs() * 2**-8).all()


@pytest.mark.parametrize("steady", [False, True])  # by tiles, where the CPU has them
def test_candidates_of_a_vocabulary_get_their_real_logits(steady: bool) -> None:
    weight_VI, x_TI = torch.randn(4096, 64).to(BFLOAT16), torch.randn(5, 64).to(BFLOAT16)
    logits_TV = Head(weight_VI, None, copy=False, steady=steady, steps=(rounded, scaled))(x_TI)
    real_TV = x_TI.float() @ weight_VI.float().t()
    assert torch.equal(logits_TV.argmax(1), real_TV.argmax(1))
    torch.testing.assert_close(logits_TV.amax(1), real_TV.amax(1))


@pytest.mark.parametrize("by_tiles", [False, True])
def test_exact_decoding_writes_the_text_of_its_own_ar(by_tiles: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not by_tiles:
        monkeypatch.setattr(tiles, "kind_of_products", lambda *, quantised=False: None)
    checkpoint = load_checkpoint(CHECKPOINT, dtype="int8")
    network = checkpoint.engine._network
    assert network is not None
    assert (network._fused is not None) == (tiles.kind_of_products(quantised=True) is not None)
    assert checkpoint.dtype == "int8"
    assert checkpoint.engine.invariant
    prompts = [checkpoint.encode(f"Repeat the word pear {count} times.") for count in (2, 5, 9)]
    settings = DecodingSettings(max_new_tokens=40, block_size=8)

    def texts(decoder: str, together: bool) -> list[list[int]]:
        batches = [prompts] if together else [[prompt] for prompt in prompts]
        runs = [list(DECODERS[decoder](checkpoint.engine, batch, settings)) for batch in batches]
        return [output_ids(run, row) for run, batch in zip(runs, batches, strict=True) for row in range(len(batch))]

    alone = texts("autoregressive", together=False)
    assert texts("autoregressive", together=True) == alone
    assert texts("self_speculative", together=True) == texts("self_speculative", together=False) == alone
    assert any(len(text) > 10 for text in alone)


def test_what_it_needs_is_said() -> None:
    with pytest.raises(CheckpointError, match="int8 is for the CPU, got a model on cuda: use --dtype bfloat16"):
        choose_dtype("int8", torch.device("cuda"))
    assert missing(CPU, torch.float32) == "int8 starts from bfloat16 weights, got torch.float32"
    assert choose_dtype("int8", CPU) == torch.int8


def test_a_cpu_without_the_instructions_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    with pytest.raises(CheckpointError, match="int8 needs a CPU with AVX512-VNNI or AMX: use --dtype auto"):
        load_checkpoint(CHECKPOINT, dtype="int8")
