"""How functions are compiled by numba, kept on disk, and given what they read: addresses of contiguous tensors.

Threads of torch's OpenMP run them (openmp.py). A function that takes a `kind` is compiled for its type: that of stored
numbers, or of the products of this CPU.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from llvmlite import ir
from numba import carray, cfunc, config, njit, types
from numba.extending import overload

from mars_kernels.cpu.instructions import emitted
from mars_kernels.cpu.vectors import multiply_add

# Without fastmath: LLVM optimises a function anew wherever another one calls it, and must not find other sums there. So
# sums have an order that is written down (vectors.py).
OPTIONS = {"nogil": True, "cache": True, "error_model": "numpy"}
WIDE, COARSE, PLACE, BYTE = np.float32(0), np.uint16(0), np.int64(0), np.int8(0)  # bfloat16 is read as uint16
PAIRS = np.uint32(0)  # of bfloat16, as AVX512-BF16 multiplies them
WIDENED = np.uint64(0)  # pairs of bfloat16, made float32 before they are multiplied, as AVX2 can
ROUNDED = np.float64(0)  # float32 that are rounded to bfloat16: what is multiplied with weights of that kind


def _places(here: Path) -> list[Path]:
    """The folders that may keep compiled functions, the best one first."""
    if config.CACHE_DIR:  # NUMBA_CACHE_DIR
        return [Path(config.CACHE_DIR)]
    try:
        from platformdirs import user_cache_dir  # not installed everywhere
    except ImportError:
        return [here / "__pycache__"]
    return [here / "__pycache__", Path(user_cache_dir("mars-lens", appauthor=False))]


def cache_folder(sources: Path, places: Sequence[Path]) -> Path:
    """A folder for what was compiled of this version of the sources, in the first place that can be written.

    numba sees that the file of a function has changed, but not that of another which the function calls or takes a
    constant from. Where no place can be written, the folder is a temporary one.
    """
    contents = b"".join(file.read_bytes() for file in sorted(sources.glob("*.py")))
    name = f"numba-{hashlib.sha256(contents).hexdigest()[:12]}"
    for place in places:
        try:
            (place / name).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=place / name):
                return place / name
        except OSError:
            continue
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


config.CACHE_DIR = str(cache_folder(Path(__file__).parent, _places(Path(__file__).parent)))


def compiled(signature: Any, function: Callable[..., None], *, cache: bool = True) -> Any:
    """A C function, compiled or read from the cache, by one process at a time.

    So one compiles and the others load; and numba's files know no locks: two processes that added to the cache of a
    function at once would take the same name for two files.
    """
    with FileLock(Path(config.CACHE_DIR) / "compiling.lock"):
        return cfunc(signature, cache=cache)(function)


@emitted(types.voidptr, types.int64)
def pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, ir.IntType(8).as_pointer())


@emitted(types.int32, types.int64)
def call(builder: Any, address: Any) -> Any:
    """The int32 of a function without arguments, by its address."""
    function = ir.FunctionType(ir.IntType(32), []).as_pointer()
    return builder.call(builder.inttoptr(address, function), [])


@emitted(types.none, types.int64)
def wait(builder: Any, address: Any) -> None:
    """Call a barrier by its address."""
    builder.call(builder.inttoptr(address, ir.FunctionType(ir.VoidType(), []).as_pointer()), [])


@emitted(types.none, types.int64, types.int64, types.int64)
def call_with(builder: Any, address: Any, first: Any, second: Any) -> None:
    """Call a function of two numbers by its address."""
    function = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * 2).as_pointer()
    builder.call(builder.inttoptr(address, function), [first, second])


@emitted(types.int32, types.float32)
def _bits(builder: Any, x: Any) -> Any:
    return builder.bitcast(x, ir.IntType(32))


@emitted(types.float32, types.int32)
def _float(builder: Any, x: Any) -> Any:
    return builder.bitcast(x, ir.FloatType())


def at(address: Any, shape: Any, kind: Any) -> Any:
    """The array at an address."""


def load(x: Any) -> Any:
    """The float32 of a stored number."""


def store(x: Any, kind: Any) -> Any:
    """A float32 as it is stored, rounded to the nearest."""


def rows_of(kind: Any) -> Any:
    """The `kind` of what is multiplied with weights of this one."""


_ARRAYS = {types.uint16: np.uint16, types.int8: np.int8, types.int64: np.int64}


@overload(at, inline="always")
def _(address, shape, kind):  # type: ignore[no-untyped-def]
    dtype = _ARRAYS.get(kind, np.float32)
    return lambda address, shape, kind: carray(pointer(address), shape, dtype)


@overload(load, inline="always")
def _(x):  # type: ignore[no-untyped-def]
    if x == types.uint16:
        return lambda x: _float(np.int32(x) << np.int32(16))
    return lambda x: x


@overload(store, inline="always")
def _(x, kind):  # type: ignore[no-untyped-def]
    if kind == types.float64:
        return lambda x, kind: load(store(x, COARSE))
    if kind != types.uint16:
        return lambda x, kind: x

    def rounded(x, kind):  # type: ignore[no-untyped-def]
        bits = _bits(x)
        return np.uint16((bits + np.int32(0x7FFF) + ((bits >> np.int32(16)) & np.int32(1))) >> np.int32(16))

    return rounded


@overload(rows_of, inline="always")
def _(kind):  # type: ignore[no-untyped-def]
    return (lambda kind: ROUNDED) if kind == types.uint64 else (lambda kind: COARSE)


MOST = np.float32(87)  # exponents


@njit(inline="always")
def exp(x):  # type: ignore[no-untyped-def]
    """e^x for x from -87 to 88, to a few units in the last place: Cephes' polynomial, which vectorises."""
    twos = np.floor(multiply_add(x, np.float32(1.44269504088896341), np.float32(0.5)))
    x = multiply_add(twos, np.float32(-0.693359375), x)
    x = multiply_add(twos, np.float32(2.12194440e-4), x)
    y = multiply_add(np.float32(1.9875691500e-4), x, np.float32(1.3981999507e-3))
    y = multiply_add(y, x, np.float32(8.3334519073e-3))
    y = multiply_add(y, x, np.float32(4.1665795894e-2))
    y = multiply_add(y, x, np.float32(1.6666665459e-1))
    y = multiply_add(y, x, np.float32(5.0000001201e-1))
    y = multiply_add(y, x * x, x) + np.float32(1)
    return y * _float((np.int32(twos) + np.int32(127)) << np.int32(23))
