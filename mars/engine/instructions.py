"""Instructions of LLVM that numba has no functions for: those of AMX and of products, steps by whole vectors, and sums.

All take addresses. Shapes: D numbers of a head. The `kind` of a head is that of mars/engine/heads.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, Signature
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload

_BYTE, _HALF, _WORD, _LONG = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_SIXTEEN = 16  # numbers of a row of a tile, and floats of the widest vectors
_KEYS = 4  # that are multiplied with queries at once: with two of these, 8 sums
_SUMS = 8  # of vectors of 8 floats, in the 16 registers that there are for these


def compiles_for(*features: str) -> bool:
    """Whether LLVM compiles for CPUs with these features.

    It does for those of this CPU, unless NUMBA_CPU_NAME or NUMBA_CPU_FEATURES say otherwise.
    """
    _, _, known = cpu_target.target_context.codegen().magic_tuple()
    return {f"+{name}" for name in features} <= set(known.split(","))


def _address(builder: Any, number: Any, offset: int = 0, kind: Any = _BYTE) -> Any:
    """A pointer to a `kind`, `offset` bytes behind an address."""
    return builder.inttoptr(builder.add(number, _LONG(offset)) if offset else number, kind.as_pointer())


def _emit(builder: Any, name: str, operands: list[Any], result: Any = ir.VoidType()) -> Any:  # noqa: B008
    """Call an instruction by its name in LLVM."""
    function = builder.module.globals.get(name)
    if function is None:
        kinds = [operand.type for operand in operands]
        function = ir.Function(builder.module, ir.FunctionType(result, kinds), name)
    return builder.call(function, operands)


def _operand(builder: Any, operand: str, kind: Any, argument: Any) -> Any:
    if operand == "tile":
        return _BYTE(kind.literal_value)
    return _address(builder, argument) if operand == "address" else argument


def _taking(count: int, function: Any) -> Any:
    """The function, for so many operands: numba asks for them, and would make a tuple of those that have no names."""
    names = ["context", *(f"operand_{number}" for number in range(count))]
    function.__signature__ = Signature([Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names])
    return function


def emitted(result: Any, *operands: Any) -> Callable[[Callable[..., Any]], Any]:
    """For a function that gets the builder and operands of these types, and emits instructions.

    It returns their result, nothing where `result` is `types.none`.
    """

    def compiled(emit: Callable[..., Any]) -> Any:
        @wraps(emit)
        def function(context: Any, *_: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                found = emit(builder, *arguments)
                return context.get_dummy_value() if result is types.none else found

            return result(*operands), generate

        return intrinsic(_taking(len(operands), function))

    return compiled


def instruction(name: str, *operands: str) -> Any:
    """The function of an instruction: each operand is a "tile", whose number is literal, an "address" or a "number"."""

    def function(context: Any, *given: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            several = zip(operands, given, arguments, strict=True)
            _emit(builder, name, [_operand(builder, *one) for one in several])
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


@intrinsic(prefer_literal=True)
def add_product(context: Any, kind: Any, total: Any, rows: Any, weights: Any) -> Any:
    """Add the product of two tiles, whose numbers are literal, to a third: whole numbers or bfloat16, as `kind` is."""
    numbers = [_BYTE(tile.literal_value) for tile in (total, rows, weights)]
    name = "llvm.x86.tdpbssd" if kind == types.int8 else "llvm.x86.tdpbf16ps"

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _emit(builder, name, numbers)
        return context.get_dummy_value()

    return types.none(kind, total, rows, weights), generate


def _fetch(builder: Any, address: Any) -> None:
    """Ask for a cache line."""
    hints = [_WORD(0), _WORD(2), _WORD(1)]  # to read, into the second cache, data
    _emit(builder, "llvm.prefetch.p0", [_address(builder, address), *hints])


fetch = emitted(types.none, types.int64)(_fetch)


class _Bfloat(ir.types._BaseFloatType):  # which llvmlite does not know
    null = "0.0"
    intrinsic_name = "bf16"

    def __str__(self) -> str:
        return "bfloat"


_Bfloat._create_instance()
_FLOATS, _WORDS, _PAIRS = (
    ir.VectorType(kind, lanes) for kind, lanes in ((ir.FloatType(), 16), (_WORD, 16), (_Bfloat(), 32))
)


def _times(builder: Any, number: Any, factor: int) -> Any:
    return builder.mul(number, _LONG(factor))


@intrinsic(prefer_literal=True)
def add_pairs(
    context: Any,
    kind: Any,
    blocks: Any,
    most: Any,
    rows: Any,
    pairs: Any,
    x: Any,
    stride: Any,
    weights: Any,
    span: Any,
    totals: Any,
    ahead: Any,
    ahead_span: Any,
    ahead_step: Any,
) -> Any:
    """Add to sums in float32 so many pairs of bfloat16 inputs of 1 to `most` rows, times those of sixteen outputs.

    By AVX512-BF16 if `kind` is that of `kernels.PAIRS`. Else rows are float32, rounded to bfloat16, and weights are
    made float32; of a pair the second product is added first, as AVX512-BF16 does it. `blocks` and `most` are literal:
    there is a loop for each number of rows, whose sums stay in registers. `stride` are the bytes between two rows,
    `span` those between two blocks of weights, which have 64 for each pair. Sums have 64 bytes a row, and 1024 a block,
    if there are several. `ahead` are weights that will be needed, `ahead_step` bytes for each pair and block.
    """
    several = blocks.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, _, _, rows, pairs, *addresses = arguments
        done = builder.append_basic_block("done")
        choice = builder.switch(rows, done)
        for count in range(1, most.literal_value + 1):
            block = builder.append_basic_block(f"rows_{count}")
            choice.add_case(_LONG(count), block)
            builder.position_at_end(block)
            _add_pairs(builder, several, count, pairs, addresses, done, widened=kind == types.uint64)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return types.none(kind, blocks, most, *[types.int64] * 10), generate


def _add_pairs(
    builder: Any, blocks: int, rows: int, pairs: Any, addresses: Sequence[Any], done: Any, *, widened: bool
) -> None:
    """The loop of so many rows, which ends in another basic block."""
    x, stride, weights, span, totals, ahead, ahead_span, ahead_step = addresses
    of_rows = [builder.add(x, _times(builder, stride, row)) for row in range(rows)]
    of_blocks = [builder.add(weights, _times(builder, span, block)) for block in range(blocks)]
    next_ones = [builder.add(ahead, _times(builder, ahead_span, block)) for block in range(blocks)]
    cells = [(row, block) for row in range(rows) for block in range(blocks)]
    places = [_address(builder, totals, 1024 * block + 64 * row, _FLOATS) for row, block in cells]
    before = [builder.load(place, align=64) for place in places]
    entry, loop, end = builder.block, builder.append_basic_block(), builder.append_basic_block()
    builder.cbranch(builder.icmp_signed(">", pairs, _LONG(0)), loop, done)

    builder.position_at_end(loop)
    pair, sums = builder.phi(_LONG), [builder.phi(_FLOATS) for _ in cells]
    word, line, wanted = (
        _times(builder, pair, 8 if widened else 4),
        _times(builder, pair, 64),
        builder.mul(pair, ahead_step),
    )
    read = []
    for block, following in zip(of_blocks, next_ones, strict=True):
        _fetch(builder, builder.add(following, wanted))
        read.append(builder.load(_address(builder, builder.add(block, line), 0, _WORDS), align=64))
    add = _add_widened if widened else _add_coarse
    after = add(builder, sums, [builder.add(place, word) for place in of_rows], read)
    following = builder.add(pair, _LONG(1))
    pair.add_incoming(_LONG(0), entry)
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
        one = builder.load(_address(builder, place, 0, _WORD), align=2)
        spread = builder.bitcast(_spread(builder, one, _WORDS), _PAIRS)
        for number, weights in enumerate(read):
            operands = [sums[row * len(read) + number], spread, builder.bitcast(weights, _PAIRS)]
            after.append(_emit(builder, "llvm.x86.avx512bf16.dpbf16ps.512", operands, _FLOATS))
    return after


def _add_widened(builder: Any, sums: Sequence[Any], of_rows: Sequence[Any], read: Sequence[Any]) -> list[Any]:
    """The same with rows of float32."""
    upper, sixteen = (ir.Constant(_WORDS, [number] * _WORDS.count) for number in (0xFFFF0000, 16))
    after = list(sums)
    for offset in (4, 0):
        wide = [builder.and_(one, upper) if offset else builder.shl(one, sixteen) for one in read]
        for row, place in enumerate(of_rows):
            spread = _spread(builder, builder.load(_address(builder, place, offset, ir.FloatType()), align=4), _FLOATS)
            for number, weights in enumerate(wide):
                cell = row * len(read) + number
                operands = [spread, builder.bitcast(weights, _FLOATS), after[cell]]
                after[cell] = _emit(builder, "llvm.fma.v16f32", operands, _FLOATS)
    return after


def _spread(builder: Any, one: Any, vector: Any) -> Any:
    """A vector that has this number in each lane."""
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), one, _WORD(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_WORD, vector.count), [0] * vector.count))


def _rounded(builder: Any, total: Any, target: Any) -> None:
    """Store sixteen float32 numbers as bfloat16, rounded to the nearest as in `kernels.store`."""

    def all_of(number: int) -> Any:
        return ir.Constant(ir.VectorType(_WORD, _SIXTEEN), [number] * _SIXTEEN)

    bits = builder.bitcast(total, ir.VectorType(_WORD, _SIXTEEN))
    odd = builder.and_(builder.lshr(bits, all_of(16)), all_of(1))
    up = builder.add(builder.add(bits, all_of(0x7FFF)), odd)
    coarse = builder.trunc(builder.lshr(up, all_of(16)), ir.VectorType(_HALF, _SIXTEEN))
    builder.store(coarse, builder.inttoptr(target, coarse.type.as_pointer()), align=2)


def _sixteen(builder: Any, address: Any) -> Any:
    return builder.load(builder.inttoptr(address, ir.VectorType(ir.FloatType(), _SIXTEEN).as_pointer()), align=4)


@emitted(types.none, types.int64, types.int64)
def round_sixteen(builder: Any, source: Any, target: Any) -> None:
    """Sixteen float32 numbers as bfloat16."""
    _rounded(builder, _sixteen(builder, source), target)


@emitted(types.none, types.int64, types.int64, types.int64)
def round_sixteen_with(builder: Any, source: Any, bias: Any, target: Any) -> None:
    """Sixteen sums of two float32 numbers as bfloat16."""
    _rounded(builder, builder.fadd(_sixteen(builder, source), _sixteen(builder, bias)), target)


@emitted(types.none, types.int64, types.int64, types.int64)
def scale_sixteen(builder: Any, place: Any, scales: Any, scale: Any) -> None:
    """Make sixteen int32 numbers float32, times the scale of each and that of all, in place."""
    whole = builder.bitcast(_sixteen(builder, place), ir.VectorType(_WORD, _SIXTEEN))
    of_each = _sixteen(builder, scales)
    of_all = builder.load(builder.inttoptr(scale, ir.FloatType().as_pointer()), align=4)
    spread = _spread(builder, of_all, of_each.type)
    scaled = builder.fmul(builder.fmul(builder.sitofp(whole, of_each.type), of_each), spread)
    builder.store(scaled, builder.inttoptr(place, scaled.type.as_pointer()), align=4)


@emitted(types.float32, types.float32, types.float32, types.float32)
def multiply_add(builder: Any, x: Any, y: Any, z: Any) -> Any:
    """x · y + z, rounded once."""
    return _emit(builder, "llvm.fma.f32", [x, y, z], ir.FloatType())


def _numbers(builder: Any, address: Any, place: Any, kind: Any, lanes: int) -> Any:
    """The float32 of `lanes` stored numbers from number `place` on: a vector, unless it is one."""

    def several(kind: Any) -> Any:
        return ir.VectorType(kind, lanes) if lanes > 1 else kind

    size = 2 if kind == _HALF else 4
    start = builder.add(address, builder.mul(place, _LONG(size)))
    stored = builder.load(_address(builder, start, 0, several(kind)), align=size)
    if kind != _HALF:
        return stored
    sixteen = ir.Constant(several(_WORD), [16] * lanes if lanes > 1 else 16)
    return builder.bitcast(builder.shl(builder.zext(stored, several(_WORD)), sixteen), several(ir.FloatType()))


def _summed(builder: Any, count: Any, add: Callable[[Any, int, Any], Any]) -> Any:
    """A sum of `count` terms, in sixteen sums side by side, which are then added up; what is left over comes last.

    `add` adds so many terms, from a number on, to as many sums.
    """
    vector = ir.VectorType(ir.FloatType(), _SIXTEEN)
    whole = builder.and_(count, _LONG(-_SIXTEEN))
    sums = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * _SIXTEEN))
    with cgutils.for_range_slice(builder, _LONG(0), whole, _LONG(_SIXTEEN)) as (place, _):
        builder.store(add(place, _SIXTEEN, builder.load(sums)), sums)
    found, lanes = builder.load(sums), _SIXTEEN
    while lanes > 1:
        lanes //= 2
        found = builder.fadd(*_halves(builder, found, lanes))
    total = cgutils.alloca_once_value(builder, builder.extract_element(found, _WORD(0)))
    with cgutils.for_range_slice(builder, whole, count, _LONG(1)) as (place, _):
        builder.store(add(place, 1, builder.load(total)), total)
    return builder.load(total)


@emitted(types.float32, types.int64, types.int64)
def sum_of(builder: Any, x: Any, count: Any) -> Any:
    """The sum of float32 numbers."""

    def add(place: Any, lanes: int, total: Any) -> Any:
        return builder.fadd(total, _numbers(builder, x, place, ir.FloatType(), lanes))

    return _summed(builder, count, add)


@intrinsic
def sum_of_products(context: Any, x: Any, y: Any, count: Any, kind: Any) -> Any:
    """The sum of the products of float32 numbers with as many of this kind."""
    stored = _HALF if kind == types.uint16 else ir.FloatType()

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, y, count, _ = arguments

        def add(place: Any, lanes: int, total: Any) -> Any:
            pair = [_numbers(builder, one, place, of, lanes) for one, of in ((x, ir.FloatType()), (y, stored))]
            name = "llvm.fma.f32" if lanes == 1 else f"llvm.fma.v{lanes}f32"
            return _emit(builder, name, [*pair, total], total.type)

        return _summed(builder, count, add)

    return types.float32(types.int64, types.int64, types.int64, kind), generate


@emitted(types.float32, types.int64, types.int64, types.int64)
def largest_sum(builder: Any, x: Any, y: Any, count: Any) -> Any:
    """The largest sum of two float32 numbers, of `count` pairs, a multiple of sixteen; at least -3e38."""
    vector = ir.VectorType(ir.FloatType(), _SIXTEEN)
    most = cgutils.alloca_once_value(builder, ir.Constant(vector, [-3e38] * _SIXTEEN))

    def larger(one: Any, other: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", one, other), one, other)

    with cgutils.for_range_slice(builder, _LONG(0), count, _LONG(_SIXTEEN)) as (place, _):
        pair = [_numbers(builder, one, place, ir.FloatType(), _SIXTEEN) for one in (x, y)]
        builder.store(larger(builder.fadd(*pair), builder.load(most)), most)
    found, lanes = builder.load(most), _SIXTEEN
    while lanes > 1:
        lanes //= 2
        found = larger(*_halves(builder, found, lanes))
    return builder.extract_element(found, _WORD(0))


def _halves(builder: Any, vector: Any, lanes: int) -> list[Any]:
    """The first so many lanes of a vector, and those behind them."""
    numbers = [ir.Constant(ir.VectorType(_WORD, lanes), list(range(at, at + lanes))) for at in (0, lanes)]
    return [builder.shuffle_vector(vector, vector, half) for half in numbers]


def lanes_for(size: int) -> int:
    """The floats of a vector that a head's numbers fill without a rest."""
    return math.gcd(size, 16 if compiles_for("avx512f") else 8)


def lanes_of(kind: Any) -> int:
    """The same in a compiled function."""
    return lanes_for(2 * len(kind))


@overload(lanes_of, inline="always")
def _(kind):  # type: ignore[no-untyped-def]
    lanes = lanes_for(2 * kind.count)
    return lambda kind: lanes


def _products(
    builder: Any, query_parts: Sequence[Sequence[Any]], keys: dict[int, Any], vector: Any
) -> dict[int, list[Any]]:
    """The products of each query with keys at these addresses, by their numbers: a vector of sums for each query."""
    found = {key: [ir.Constant(vector, [0.0] * vector.count) for _ in query_parts] for key in keys}
    for number, parts in enumerate(zip(*query_parts, strict=True)):
        for key, address in keys.items():
            own = builder.load(_address(builder, address, 4 * vector.count * number, vector), align=4)
            for query, part in enumerate(parts):
                operands = [part, own, found[key][query]]
                found[key][query] = _emit(builder, f"llvm.fma.v{vector.count}f32", operands, vector)
    return found


@intrinsic
def scores_of_keys(context: Any, queries: Any, keys: Any, found: Any, kind: Any) -> Any:
    """The products of each of some queries with as many keys as a vector has lanes; keys are loaded once for all.

    `queries` and `found` are tuples of as many addresses. LLVM makes no such code of a loop: it sums up the lanes of
    each key by itself, in vectors of half the width.
    """
    size, lanes = 2 * kind.count, lanes_for(2 * kind.count)
    vector = ir.VectorType(ir.FloatType(), lanes)

    def from_two(builder: Any, one: Any, two: Any, bit: int, moved: int) -> Any:
        """The lanes whose number lacks this bit from one vector, the others from the other, from lane ^ `moved`."""
        lanes_of = [(lane ^ moved) + (lanes if lane & bit else 0) for lane in range(lanes)]
        return builder.shuffle_vector(one, two, ir.Constant(ir.VectorType(_WORD, lanes), lanes_of))

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        several, keys, places, _ = arguments
        addresses, targets = cgutils.unpack_tuple(builder, several), cgutils.unpack_tuple(builder, places)
        query_parts = [
            [builder.load(_address(builder, query, part, vector), align=4) for part in range(0, 4 * size, 4 * lanes)]
            for query in addresses
        ]

        products: dict[int, list[Any]] = {}

        def sums_of(first: int, count: int) -> list[Any]:
            """A sum for each query, of `count` keys from the first on.

            Half of the lanes of two keys are added to their other half, until lane n holds the sum of key n.
            """
            if count == 1:
                if first not in products:
                    numbers = range(first, first + min(_KEYS, lanes))
                    these = {number: builder.add(keys, _LONG(4 * size * number)) for number in numbers}
                    products.update(_products(builder, query_parts, these, vector))
                return products[first]
            pairs = zip(sums_of(first, count // 2), sums_of(first + count // 2, count // 2), strict=True)
            bit = count // 2
            return [
                builder.fadd(from_two(builder, one, two, bit, 0), from_two(builder, one, two, bit, bit))
                for one, two in pairs
            ]

        for total, target in zip(sums_of(0, lanes), targets, strict=True):
            builder.store(total, _address(builder, target, 0, vector), align=4)
        return context.get_dummy_value()

    return types.none(queries, types.int64, found, kind), generate


@intrinsic
def add_values(context: Any, weights: Any, values: Any, sums: Any, kind: Any) -> Any:
    """Add as many weighted values as a vector has lanes to each of some sums; values are loaded once for all.

    `weights` and `sums` are tuples of as many addresses.
    """
    size, lanes = 2 * kind.count, lanes_for(2 * kind.count)
    vector, name = ir.VectorType(ir.FloatType(), lanes), f"llvm.fma.v{lanes}f32"

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        several, values, places, _ = arguments
        addresses, targets = cgutils.unpack_tuple(builder, several), cgutils.unpack_tuple(builder, places)
        # Sums that stay in registers, two of each part in turn where there are 32 of these: a processor adds to both.
        turns = 2 if lanes == _SIXTEEN else 1
        together = _SUMS // len(targets) if turns == 1 else size // lanes
        offsets = range(0, 4 * size, 4 * lanes)
        for start in range(0, len(offsets), together):
            parts = offsets[start : start + together]
            nothing = [ir.Constant(vector, [0.0] * lanes) for _ in parts]
            totals = [
                [
                    [builder.load(_address(builder, target, part, vector), align=4) for part in parts],
                    *([list(nothing)] if turns == 2 else []),
                ]
                for target in targets
            ]
            for value in range(lanes):
                spread = [
                    _spread(builder, builder.load(_address(builder, one, 4 * value, ir.FloatType()), align=4), vector)
                    for one in addresses
                ]
                for number, part in enumerate(parts):
                    own = builder.load(_address(builder, values, 4 * size * value + part, vector), align=4)
                    for weight, total in zip(spread, totals, strict=True):
                        sums = total[value % turns]
                        sums[number] = _emit(builder, name, [weight, own, sums[number]], vector)
            for target, total in zip(targets, totals, strict=True):
                for part, *several in zip(parts, *total, strict=True):
                    found = several[0] if turns == 1 else builder.fadd(*several)
                    builder.store(found, _address(builder, target, part, vector), align=4)
        return context.get_dummy_value()

    return types.none(weights, types.int64, sums, kind), generate
