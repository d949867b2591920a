"""Instructions of LLVM that numba has no functions for: those of AMX and of products with weights.

All take addresses. Sums and the steps of attention are in vectors.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, Signature
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

BYTE, HALF, WORD, LONG = (ir.IntType(bits) for bits in (8, 16, 32, 64))
SIXTEEN = 16  # numbers of a row of a tile, and floats of the widest vectors


def compiles_for(*features: str) -> bool:
    """Whether LLVM compiles for CPUs with these features.

    It does for those of this CPU, unless NUMBA_CPU_NAME or NUMBA_CPU_FEATURES say otherwise.
    """
    _, _, known = cpu_target.target_context.codegen().magic_tuple()
    return {f"+{name}" for name in features} <= set(known.split(","))


def pointer_to(builder: Any, number: Any, offset: int = 0, kind: Any = BYTE) -> Any:
    """A pointer to a `kind`, `offset` bytes behind an address."""
    return builder.inttoptr(builder.add(number, LONG(offset)) if offset else number, kind.as_pointer())


def emit(builder: Any, name: str, operands: list[Any], result: Any = ir.VoidType()) -> Any:  # noqa: B008
    """Call an instruction by its name in LLVM."""
    function = builder.module.globals.get(name)
    if function is None:
        kinds = [operand.type for operand in operands]
        function = ir.Function(builder.module, ir.FunctionType(result, kinds), name)
    return builder.call(function, operands)


def _operand(builder: Any, operand: str, kind: Any, argument: Any) -> Any:
    if operand == "tile":
        return BYTE(kind.literal_value)
    return pointer_to(builder, argument) if operand == "address" else argument


def _taking(count: int, function: Any) -> Any:
    """The function, for so many operands: numba asks for them, and would make a tuple of those that have no names."""
    names = ["context", *(f"operand_{number}" for number in range(count))]
    function.__signature__ = Signature([Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names])
    return function


def emitted(result: Any, *operands: Any) -> Callable[[Callable[..., Any]], Any]:
    """For a function that gets the builder and operands of these types, and emits instructions.

    It returns their result, nothing where `result` is `types.none`.
    """

    def compiled(write: Callable[..., Any]) -> Any:
        @wraps(write)
        def function(context: Any, *_: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                found = write(builder, *arguments)
                return context.get_dummy_value() if result is types.none else found

            return result(*operands), generate

        return intrinsic(_taking(len(operands), function))

    return compiled


def instruction(name: str, *operands: str) -> Any:
    """The function of an instruction: each operand is a "tile", whose number is literal, an "address" or a "number"."""

    def function(context: Any, *given: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            several = zip(operands, given, arguments, strict=True)
            emit(builder, name, [_operand(builder, *one) for one in several])
            return context.get_dummy_value()

        read = [kind if operand == "tile" else types.int64 for operand, kind in zip(operands, given, strict=True)]
        return types.none(*read), generate

    return intrinsic(prefer_literal=True)(_taking(len(operands), function))


configure_tiles = instruction("llvm.x86.ldtilecfg", "address")  # rows and bytes of each
store_configuration = instruction("llvm.x86.sttilecfg", "address")  # the present one
clear_tile = instruction("llvm.x86.tilezero", "tile")
load_tile = instruction("llvm.x86.tileloadd64", "tile", "address", "number")  # bytes between rows
stream_tile = instruction("llvm.x86.tileloaddt164", "tile", "address", "number")  # the nearest cache need not keep it
save_tile = instruction("llvm.x86.tilestored64", "tile", "address", "number")


add_product = instruction("llvm.x86.tdpbf16ps", "tile", "tile", "tile")  # of the last two, to the first


def _fetch(builder: Any, address: Any) -> None:
    """Ask for a cache line."""
    hints = [WORD(0), WORD(2), WORD(1)]  # to read, into the second cache, data
    emit(builder, "llvm.prefetch.p0", [pointer_to(builder, address), *hints])


fetch = emitted(types.none, types.int64)(_fetch)


class _Bfloat(ir.Type):
    """The type of bfloat16, which llvmlite does not know."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Bfloat)

    def __hash__(self) -> int:
        return hash(_Bfloat)


class Pairs(NamedTuple):
    """So many pairs of inputs, of `rows` rows `stride` bytes apart, and of blocks of weights `span` bytes apart.

    Weights have 64 bytes for each pair. Sums have 64 bytes a row, and 1024 a block, if there are several. `ahead` are
    weights that will be needed, `ahead_step` bytes for each pair and block.
    """

    rows: int
    number: int
    x: int
    stride: int
    weights: int
    span: int
    totals: int
    ahead: int
    ahead_span: int
    ahead_step: int


# The most rows whose sums of four, two and one blocks fill the registers: 32 of 16 floats, or 16 of 8.
MOST_ROWS = {types.uint32: {4: 6, 2: 14, 1: 14}, types.uint64: {4: 1, 2: 2, 1: 6}}
_FLOATS, _WORDS, _PAIRS = (
    ir.VectorType(kind, lanes) for kind, lanes in ((ir.FloatType(), 16), (WORD, 16), (_Bfloat(), 32))
)


def _times(builder: Any, number: Any, factor: int) -> Any:
    return builder.mul(number, LONG(factor))


@intrinsic(prefer_literal=True)
def add_pairs(context: Any, kind: Any, blocks: Any, pairs: Any) -> Any:
    """Add to sums in float32 `Pairs` of bfloat16 inputs of a few rows, times those of sixteen outputs of each block.

    By AVX512-BF16 if `kind` is that of `jit.PAIRS`. Else rows are float32, rounded to bfloat16, and weights are made
    float32; of a pair the second product is added first, as AVX512-BF16 does it. `blocks` is literal, and there is a
    loop for each number of rows, whose sums stay in registers.
    """
    several = blocks.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, count, *addresses = cgutils.unpack_tuple(builder, arguments[2])
        done = builder.append_basic_block("done")
        choice = builder.switch(rows, done)
        for number in range(1, MOST_ROWS[kind][several] + 1):
            block = builder.append_basic_block(f"rows_{number}")
            choice.add_case(LONG(number), block)
            builder.position_at_end(block)
            _add_pairs(builder, several, number, count, addresses, done, widened=kind == types.uint64)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return types.none(kind, blocks, pairs), generate


def _add_pairs(
    builder: Any, blocks: int, rows: int, pairs: Any, addresses: Sequence[Any], done: Any, *, widened: bool
) -> None:
    """The loop of so many rows, which ends in another basic block."""
    x, stride, weights, span, totals, ahead, ahead_span, ahead_step = addresses
    of_rows = [builder.add(x, _times(builder, stride, row)) for row in range(rows)]
    of_blocks = [builder.add(weights, _times(builder, span, block)) for block in range(blocks)]
    next_ones = [builder.add(ahead, _times(builder, ahead_span, block)) for block in range(blocks)]
    cells = [(row, block) for row in range(rows) for block in range(blocks)]
    places = [pointer_to(builder, totals, 1024 * block + 64 * row, _FLOATS) for row, block in cells]
    before = [builder.load(place, align=64) for place in places]
    entry, loop, end = builder.block, builder.append_basic_block(), builder.append_basic_block()
    builder.cbranch(builder.icmp_signed(">", pairs, LONG(0)), loop, done)

    builder.position_at_end(loop)
    pair, sums = builder.phi(LONG), [builder.phi(_FLOATS) for _ in cells]
    word, line, wanted = (
        _times(builder, pair, 8 if widened else 4),
        _times(builder, pair, 64),
        builder.mul(pair, ahead_step),
    )
    read = []
    for block, following in zip(of_blocks, next_ones, strict=True):
        _fetch(builder, builder.add(following, wanted))
        read.append(builder.load(pointer_to(builder, builder.add(block, line), 0, _WORDS), align=64))
    add = _add_widened if widened else _add_coarse
    after = add(builder, sums, [builder.add(place, word) for place in of_rows], read)
    following = builder.add(pair, LONG(1))
    pair.add_incoming(LONG(0), entry)
    pair.add_incoming(following, loop)
    for total, first, last in zip(sums, before, after, strict=True):
        total.add_incoming(first, entry)
        total.add_incoming(last, loop)
    builder.cbranch(builder.icmp_signed("<", following, pairs), loop, end)

    builder.position_at_end(end)
    for total, place in zip(after, places, strict=True):
        builder.store(total, place, align=64)
    builder.branch(done)


def _add_coarse(builder: Any, sums: Sequence[Any], of_rows: Sequence[Any], read: Sequence[Any]) -> list[Any]:
    """The sums of rows times blocks, with the pairs at these addresses times those of weights added."""
    after = []
    for row, place in enumerate(of_rows):
        one = builder.load(pointer_to(builder, place, 0, WORD), align=2)
        spread = builder.bitcast(broadcast(builder, one, _WORDS), _PAIRS)
        for number, weights in enumerate(read):
            operands = [sums[row * len(read) + number], spread, builder.bitcast(weights, _PAIRS)]
            after.append(emit(builder, "llvm.x86.avx512bf16.dpbf16ps.512", operands, _FLOATS))
    return after


def _add_widened(builder: Any, sums: Sequence[Any], of_rows: Sequence[Any], read: Sequence[Any]) -> list[Any]:
    """The same with rows of float32."""
    upper, sixteen = (ir.Constant(_WORDS, [number] * _WORDS.count) for number in (0xFFFF0000, 16))
    after = list(sums)
    for offset in (4, 0):
        wide = [builder.and_(one, upper) if offset else builder.shl(one, sixteen) for one in read]
        for row, place in enumerate(of_rows):
            spread = broadcast(
                builder, builder.load(pointer_to(builder, place, offset, ir.FloatType()), align=4), _FLOATS
            )
            for number, weights in enumerate(wide):
                cell = row * len(read) + number
                operands = [spread, builder.bitcast(weights, _FLOATS), after[cell]]
                after[cell] = emit(builder, "llvm.fma.v16f32", operands, _FLOATS)
    return after


def broadcast(builder: Any, one: Any, vector: Any) -> Any:
    """A vector that has this number in each lane."""
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), one, WORD(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(WORD, vector.count), [0] * vector.count))


def _rounded(builder: Any, total: Any, target: Any) -> None:
    """Store sixteen float32 numbers as bfloat16, rounded to the nearest as in `jit.store`."""

    def all_of(number: int) -> Any:
        return ir.Constant(ir.VectorType(WORD, SIXTEEN), [number] * SIXTEEN)

    bits = builder.bitcast(total, ir.VectorType(WORD, SIXTEEN))
    odd = builder.and_(builder.lshr(bits, all_of(16)), all_of(1))
    up = builder.add(builder.add(bits, all_of(0x7FFF)), odd)
    coarse = builder.trunc(builder.lshr(up, all_of(16)), ir.VectorType(HALF, SIXTEEN))
    builder.store(coarse, builder.inttoptr(target, coarse.type.as_pointer()), align=2)


def _sixteen(builder: Any, address: Any) -> Any:
    return builder.load(builder.inttoptr(address, ir.VectorType(ir.FloatType(), SIXTEEN).as_pointer()), align=4)


@emitted(types.none, types.int64, types.int64)
def round_sixteen(builder: Any, source: Any, target: Any) -> None:
    """Sixteen float32 numbers as bfloat16."""
    _rounded(builder, _sixteen(builder, source), target)


@emitted(types.none, types.int64, types.int64, types.int64)
def round_sixteen_with(builder: Any, source: Any, bias: Any, target: Any) -> None:
    """Sixteen sums of two float32 numbers as bfloat16."""
    _rounded(builder, builder.fadd(_sixteen(builder, source), _sixteen(builder, bias)), target)
