"""Steps by whole vectors that numba has no functions for, in an order that is written down: sums, and attention.

All take addresses. Shapes: D numbers of a head, whose `kind` is that of `steps.head_kind`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from mars_kernels.cpu.instructions import (
    LONG,
    SIXTEEN,
    WORD,
    broadcast,
    compiles_for,
    emit,
    emitted,
    pointer_to,
)

_KEYS = 4  # that are multiplied with queries at once: with two of these, 8 sums
_SUMS = 8  # of vectors of 8 floats, in the 16 registers that there are for these


@emitted(types.float32, types.float32, types.float32, types.float32)
def multiply_add(builder: Any, x: Any, y: Any, z: Any) -> Any:
    """x · y + z, rounded once."""
    return emit(builder, "llvm.fma.f32", [x, y, z], ir.FloatType())


def _floats(builder: Any, address: Any, place: Any, lanes: int) -> Any:
    """So many float32 from number `place` on: a vector, unless it is one."""
    kind = ir.VectorType(ir.FloatType(), lanes) if lanes > 1 else ir.FloatType()
    return builder.load(pointer_to(builder, builder.add(address, builder.mul(place, LONG(4))), 0, kind), align=4)


def _summed(builder: Any, count: Any, add: Callable[[Any, int, Any], Any]) -> Any:
    """A sum of `count` terms, in sixteen sums side by side, which are then added up; what is left over comes last.

    `add` adds so many terms, from a number on, to as many sums.
    """
    vector = ir.VectorType(ir.FloatType(), SIXTEEN)
    whole = builder.and_(count, LONG(-SIXTEEN))
    sums = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * SIXTEEN))
    with cgutils.for_range_slice(builder, LONG(0), whole, LONG(SIXTEEN)) as (place, _):
        builder.store(add(place, SIXTEEN, builder.load(sums)), sums)
    found, lanes = builder.load(sums), SIXTEEN
    while lanes > 1:
        lanes //= 2
        found = builder.fadd(*_halves(builder, found, lanes))
    total = cgutils.alloca_once_value(builder, builder.extract_element(found, WORD(0)))
    with cgutils.for_range_slice(builder, whole, count, LONG(1)) as (place, _):
        builder.store(add(place, 1, builder.load(total)), total)
    return builder.load(total)


@emitted(types.float32, types.int64, types.int64)
def sum_of(builder: Any, x: Any, count: Any) -> Any:
    """The sum of float32 numbers."""

    def add(place: Any, lanes: int, total: Any) -> Any:
        return builder.fadd(total, _floats(builder, x, place, lanes))

    return _summed(builder, count, add)


@emitted(types.float32, types.int64, types.int64)
def sum_of_squares(builder: Any, x: Any, count: Any) -> Any:
    """The sum of the squares of float32 numbers."""

    def add(place: Any, lanes: int, total: Any) -> Any:
        found = _floats(builder, x, place, lanes)
        name = "llvm.fma.f32" if lanes == 1 else f"llvm.fma.v{lanes}f32"
        return emit(builder, name, [found, found, total], total.type)

    return _summed(builder, count, add)


@emitted(types.float32, types.int64, types.int64, types.int64)
def largest_sum(builder: Any, x: Any, y: Any, count: Any) -> Any:
    """The largest sum of two float32 numbers, of `count` pairs, a multiple of sixteen; at least -3e38."""
    vector = ir.VectorType(ir.FloatType(), SIXTEEN)
    most = cgutils.alloca_once_value(builder, ir.Constant(vector, [-3e38] * SIXTEEN))

    def larger(one: Any, other: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", one, other), one, other)

    with cgutils.for_range_slice(builder, LONG(0), count, LONG(SIXTEEN)) as (place, _):
        pair = [_floats(builder, one, place, SIXTEEN) for one in (x, y)]
        builder.store(larger(builder.fadd(*pair), builder.load(most)), most)
    found, lanes = builder.load(most), SIXTEEN
    while lanes > 1:
        lanes //= 2
        found = larger(*_halves(builder, found, lanes))
    return builder.extract_element(found, WORD(0))


def _halves(builder: Any, vector: Any, lanes: int) -> list[Any]:
    """The first so many lanes of a vector, and those behind them."""
    numbers = [ir.Constant(ir.VectorType(WORD, lanes), list(range(at, at + lanes))) for at in (0, lanes)]
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
            own = builder.load(pointer_to(builder, address, 4 * vector.count * number, vector), align=4)
            for query, part in enumerate(parts):
                operands = [part, own, found[key][query]]
                found[key][query] = emit(builder, f"llvm.fma.v{vector.count}f32", operands, vector)
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
        return builder.shuffle_vector(one, two, ir.Constant(ir.VectorType(WORD, lanes), lanes_of))

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        several, keys, places, _ = arguments
        addresses, targets = cgutils.unpack_tuple(builder, several), cgutils.unpack_tuple(builder, places)
        query_parts = [
            [builder.load(pointer_to(builder, query, part, vector), align=4) for part in range(0, 4 * size, 4 * lanes)]
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
                    these = {number: builder.add(keys, LONG(4 * size * number)) for number in numbers}
                    products.update(_products(builder, query_parts, these, vector))
                return products[first]
            pairs = zip(sums_of(first, count // 2), sums_of(first + count // 2, count // 2), strict=True)
            bit = count // 2
            return [
                builder.fadd(from_two(builder, one, two, bit, 0), from_two(builder, one, two, bit, bit))
                for one, two in pairs
            ]

        for total, target in zip(sums_of(0, lanes), targets, strict=True):
            builder.store(total, pointer_to(builder, target, 0, vector), align=4)
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
        turns = 2 if lanes == SIXTEEN else 1
        together = _SUMS // len(targets) if turns == 1 else size // lanes
        offsets = range(0, 4 * size, 4 * lanes)
        for start in range(0, len(offsets), together):
            parts = offsets[start : start + together]
            nothing = [ir.Constant(vector, [0.0] * lanes) for _ in parts]
            totals = [
                [
                    [builder.load(pointer_to(builder, target, part, vector), align=4) for part in parts],
                    *([list(nothing)] if turns == 2 else []),
                ]
                for target in targets
            ]
            for value in range(lanes):
                spread = [
                    broadcast(
                        builder, builder.load(pointer_to(builder, one, 4 * value, ir.FloatType()), align=4), vector
                    )
                    for one in addresses
                ]
                for number, part in enumerate(parts):
                    own = builder.load(pointer_to(builder, values, 4 * size * value + part, vector), align=4)
                    for weight, total in zip(spread, totals, strict=True):
                        sums = total[value % turns]
                        sums[number] = emit(builder, name, [weight, own, sums[number]], vector)
            for target, total in zip(targets, totals, strict=True):
                for part, *several in zip(parts, *total, strict=True):
                    found = several[0] if turns == 1 else builder.fadd(*several)
                    builder.store(found, pointer_to(builder, target, part, vector), align=4)
        return context.get_dummy_value()

    return types.none(weights, types.int64, sums, kind), generate
