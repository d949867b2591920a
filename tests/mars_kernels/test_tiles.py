"""Products by kernels of our own, AMX, AVX512-BF16 and AVX2: the real ones, the same bits whoever shares the call.

And no harm to the tiles of oneDNN.
"""

import pytest
import torch
from transformers import LlamaConfig

from mars.engine import backends
from mars.engine.linear import Linear
from mars_kernels.cpu import amx
from mars_kernels.cpu.jit import PAIRS, WIDENED
from mars_kernels.cpu.layout import pack, unpack
from mars_kernels.cpu.tiles import Tiled, kind_of_products

pytestmark = [
    pytest.mark.skipif(kind_of_products() is None, reason="this CPU has no AVX2"),
    pytest.mark.usefixtures("one_thread"),
]
NEEDS_BFLOAT16 = pytest.mark.skipif(kind_of_products() is WIDENED, reason="this CPU has AVX2 alone")
NEEDS_AMX = pytest.mark.skipif(not amx.available(), reason="this CPU has no AMX")
ROWS = 70


@pytest.fixture(
    params=["", pytest.param("AVX512_CORE_BF16", marks=NEEDS_AMX), pytest.param("AVX2", marks=NEEDS_BFLOAT16)],
    ids=["usual", "without AMX", "AVX2"],
)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the kernels for bfloat16 that this CPU can run."""
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", request.param)


def weights(outputs: int, inputs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and rows of whole numbers and quarters, whose products have no rounding but the last."""
    generator = torch.Generator().manual_seed(0)
    weight_OI = torch.randint(-8, 9, (outputs, inputs), generator=generator) / 4
    x_TI = torch.randint(-8, 9, (ROWS, inputs), generator=generator) / 4
    return weight_OI.bfloat16(), x_TI.bfloat16()


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("threads", "outputs", "inputs", "biased"),
    [(1, 16, 32, True), (2, 80, 96, False), (3, 272, 160, True), (3, 16, 32, False)],
)
def test_products_are_right_for_any_number_of_rows(threads: int, outputs: int, inputs: int, biased: bool) -> None:
    """Three threads have more than one block each, or none."""
    weight_OI, x_TI = weights(outputs, inputs)
    bias_O = torch.arange(outputs).bfloat16() if biased else None
    torch.set_num_threads(threads)
    product = Tiled(weight_OI, bias_O)
    real_TO = x_TI.float() @ weight_OI.float().t()
    expected_TO = (real_TO if bias_O is None else real_TO + bias_O.float()).bfloat16()
    for rows in (0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 48, 65, ROWS):
        assert torch.equal(product(x_TI[:rows]), expected_TO[:rows]), rows


def test_weights_come_back_and_wrong_rows_are_refused() -> None:
    weight_OI, _ = weights(80, 96)
    assert torch.equal(unpack(pack(weight_OI)), weight_OI)
    product = Tiled(weight_OI)
    product.shed()
    assert torch.equal(product.plain_weight(), weight_OI)
    for wrong_TI in (torch.zeros(3, 96), torch.zeros(3, 64).bfloat16(), torch.zeros(96).bfloat16()):
        with pytest.raises(ValueError, match=r"takes bfloat16 rows of 96 numbers, got torch\.\w+ of shape \["):
            product(wrong_TI)


@NEEDS_AMX
def test_it_leaves_onednn_its_tiles() -> None:
    """oneDNN lays its tiles out once, and goes by them in its next call."""
    weight_OI, x_TI = weights(80, 128)
    tiled, other = Tiled(weight_OI), Linear(weight_OI, pack=True)
    expected_TO = other(x_TI[:5])
    for rows in (1, 20, 5):
        tiled(x_TI[:rows])
        assert torch.equal(other(x_TI[:5]), expected_TO), rows
        assert torch.equal(tiled(x_TI[:5]), expected_TO), rows


@pytest.mark.parametrize("variable", ["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"])
def test_forbidden_instructions_are_not_used(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, config = kind_of_products(), LlamaConfig(hidden_size=64, intermediate_size=64)
    for name in ("AVX512_CORE_AMX", "ALL", ""):
        monkeypatch.setenv(variable, name)
        assert kind_of_products() is usual, name
    monkeypatch.setenv(variable, "AVX512_CORE_BF16")
    assert kind_of_products() is (WIDENED if usual is WIDENED else PAIRS)
    for name in ("AVX512_CORE", "AVX2"):
        monkeypatch.setenv(variable, name)
        assert kind_of_products() is WIDENED
        assert backends.can_be_invariant(torch.device("cpu"), torch.bfloat16, config)
    for name in ("AVX", "SSE41"):
        monkeypatch.setenv(variable, name)
        assert not backends.can_be_invariant(torch.device("cpu"), torch.bfloat16, config), name
