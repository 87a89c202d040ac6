"""The register block of a matrix product: vectors x columns accumulators, one loop.

The three loops (outer, batch, k) are one loop with three exits, so that every accumulator is one
phi and the code stays small:

    loop:    k left >= 4 (elsewhere: 2, of large blocks) -> so many steps -> loop
             k left >= 1 -> one step -> loop
             else next (outer, batch) -> loop, or store

With ``repeats`` all of it stands in a loop over blocks of columns. Where the depth is known there
is no loop over k.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from teir.backends.llvm.emit_flush import start_flushing, stop_flushing
from teir.backends.llvm.emit_gemm_block import (
    Accumulators,
    Arguments,
    Block,
    claims_c,
    emit_preload,
    emit_store,
    gemm_arguments,
    prepare_block,
)
from teir.backends.llvm.emit_gemm_columns import (
    STEPS_OF_COLUMNS,
    emit_column_steps,
    walks_columns,
)
from teir.backends.llvm.emit_gemm_pairs import emit_pairs, pair_steps
from teir.backends.llvm.emit_gemm_repeats import begin_blocks, end_blocks, following_block
from teir.backends.llvm.emit_gemm_requests import (
    Left,
    ask_for_b,
    asks_apart,
    asks_for_b,
    emit_requests,
    start_claims,
)
from teir.backends.llvm.emit_gemm_steps import (
    add_products,
    emit_step,
    factors_of_steps,
    next_step,
)
from teir.backends.llvm.emit_numbers import (
    require_one_accumulator,
)
from teir.backends.llvm.emit_products import Factor
from teir.backends.llvm.emit_text import FunctionText, shift_pointer, vector
from teir.lower.access import Access
from teir.lower.kernels import GemmBlock
from teir.target import Isa

_MANY_STEPS = 4
"""Steps at once where multiply-adds are soon done. Measured on Golden Cove, with what asks for
nothing told by one word: blocks three to six vectors high take 1 to 10 % less time than with two.
"""
_MOST_HELD = 8
"""Vectors of A that stay in registers while repeated blocks of a known depth are formed."""
_MOSTLY = '!prof !{!"branch_weights", i32 64, i32 1}'


def emit_gemm_body(kernel: GemmBlock, isa: Isa) -> FunctionText:
    """The body of the function for operands %A, %B, %C and the arguments of `GemmBlock`."""
    return _emit(kernel, isa, Arguments(gemm_arguments(kernel), of_node=False))


def emit_gemm_node(kernel: GemmBlock, isa: Isa) -> FunctionText:
    """The body of the node's function: the arguments are words of ``%node``."""
    return _emit(kernel, isa, Arguments(gemm_arguments(kernel), of_node=True))


def _emit(kernel: GemmBlock, isa: Isa, arguments: Arguments) -> FunctionText:
    _require_possible(kernel)
    text = FunctionText()
    text.label("entry")
    block = prepare_block(text, kernel, isa, arguments)
    held = _held(text, block)
    blocks = begin_blocks(text, block) if kernel.repeats else None
    mode = None
    if kernel.flushes and block.pairs is None:
        mode = start_flushing(text, isa)
    start = _start(text, block)
    start_claims(text, block)
    first = emit_preload(text, block)
    if kernel.depth is None:
        sums = _emit_loop(text, block, start, first)
    else:
        sums = _emit_all_steps(text, block, start, first, kernel.depth, held)
    text.label("finish")
    stop_flushing(text, isa, mode)
    more = None
    if blocks is not None and kernel.loads_ahead:
        more = following_block(text, block, blocks)
    emit_store(text, block, sums)
    if blocks is not None:
        end_blocks(text, more or following_block(text, block, blocks))
    text.effect("ret void")
    return text


def _require_possible(kernel: GemmBlock) -> None:
    """Raises ValueError for a block that is not emitted."""
    if kernel.c_access is Access.BROADCAST:
        raise ValueError("expected an output that is UNIT or STRIDED, found BROADCAST")
    require_one_accumulator(kernel.in_type, kernel.out_type)
    if kernel.flushes and (kernel.repeats or kernel.depth is not None):
        raise ValueError("expected no repetition and no fixed depth of a block that flushes")
    if kernel.brings and (kernel.repeats or kernel.a_access is not Access.UNIT):
        raise ValueError("expected adjacent rows and no repetition of a block that asks for A")
    if kernel.loads_ahead and not (kernel.repeats and kernel.c_access is Access.UNIT):
        raise ValueError("expected adjacent rows and repetition of a block that loads C ahead")
    if kernel.asks and (kernel.depth is not None or not claims_c(kernel)):
        raise ValueError("expected a loop over columns of several vectors of a block that asks")


@dataclass(frozen=True, slots=True)
class _State:
    """What changes from one pass through the loop to the next, as value names.

    ``b`` has one base pointer per group of columns; ``batch_left`` and ``outer_left`` count the
    current ones.
    """

    a: str
    b: tuple[str, ...]
    k_left: str
    batch_left: str
    outer_left: str
    sums: Accumulators


Sources = tuple[tuple[str, _State], ...]
"""The blocks that lead to the loop's head, and the state each brings."""


def _emit_loop(
    text: FunctionText, block: Block, start: _State, first: Accumulators
) -> Accumulators:
    """The loop, which leaves for %finish; returns the sums."""
    state = _State(
        text.fresh(),
        tuple(text.fresh() for _ in start.b),
        text.fresh(),
        text.fresh(),
        text.fresh(),
        [[text.fresh() for _ in rows] for rows in first],
    )
    many = _emit_steps(text, block, state, "many", _steps_at_once(block))
    text.label("few")
    two = _emit_two(text, block, state)
    last = text.value(f"icmp eq i64 {state.k_left}, 0")
    text.effect(f"br i1 {last}, label %segment, label %one")
    one = _emit_steps(text, block, state, "one", 1)
    next_batch, next_outer = _emit_segment(text, block, state)
    sources = (
        (_before(block), start),
        ("preload", replace(start, sums=first)),
        ("many", many),
        *two,
        ("one", one),
        ("next_batch", next_batch),
        ("next_outer", next_outer),
    )
    _emit_loop_head(text, block, state, sources)
    return state.sums


def _emit_two(text: FunctionText, block: Block, state: _State) -> Sources:
    """A pair of steps, where more were taken at once; ends in the block that tells what is left."""
    if block.pairs is None or pair_steps(block) == 2:
        return ()
    enough = text.value(f"icmp sge i64 {state.k_left}, 2")
    text.effect(f"br i1 {enough}, label %two, label %fewer")
    two = _emit_steps(text, block, state, "two", 2)
    text.label("fewer")
    return (("two", two),)


def _emit_all_steps(
    text: FunctionText,
    block: Block,
    start: _State,
    first: Accumulators,
    depth: int,
    held: list[list[Factor]],
) -> Accumulators:
    """The steps one after the other, then %finish; returns the sums. ``held`` as `_held` found."""
    text.label("loop")
    kind = vector(block.arithmetic.element, block.arithmetic.count)
    sums = [
        [
            text.value(f"phi {kind} [ {zero}, %{_before(block)} ], [ {stored}, %preload ]")
            for zero, stored in zip(*columns, strict=True)
        ]
        for columns in zip(start.sums, first, strict=True)
    ]
    a, b = start.a, start.b
    if walks_columns(block.kernel):
        steps = held or factors_of_steps(text, block, a, depth)
        sums = emit_column_steps(text, block, steps, b[0], sums)
        text.effect("br label %finish")
        return sums
    for step in range(depth):
        if step:
            a, b = next_step(text, block, a, b)
        if held:
            sums = add_products(text, block, held[step], b, sums)
        else:
            sums = emit_step(text, block, a, b, sums)
    text.effect("br label %finish")
    return sums


def _held(text: FunctionText, block: Block) -> list[list[Factor]]:
    """The vectors of A of every step where all blocks find them in registers; none elsewhere."""
    kernel = block.kernel
    if not kernel.repeats or kernel.depth is None or kernel.depth * kernel.vectors > _MOST_HELD:
        return []
    return factors_of_steps(text, block, "%A", kernel.depth)


def _before(block: Block) -> str:
    """The label of the basic block that starts a register block."""
    return "block" if block.kernel.repeats else "entry"


def _emit_loop_head(text: FunctionText, block: Block, state: _State, sources: Sources) -> None:
    """The phis of the loop and its test; written last because it names what the blocks made."""
    text.label("loop")
    types = _types(state, vector(block.arithmetic.element, block.arithmetic.count))
    for number, name in enumerate(_flat(state)):
        incoming = ", ".join(f"[ {_flat(source)[number]}, %{label} ]" for label, source in sources)
        text.define(name, f"phi {types[number]} {incoming}")
    kernel, steps, b = block.kernel, _steps_at_once(block), state.b[0]
    is_apart = asks_apart(kernel, block.isa)
    if not is_apart and asks_for_b(kernel, block.isa):
        ask_for_b(text, block, b, steps, _left(state))
    enough = text.value(f"icmp sge i64 {state.k_left}, {steps}")
    work = "ask" if is_apart else "many"
    text.effect(f"br i1 {enough}, label %{work}, label %few, {_MOSTLY}")
    if is_apart:
        emit_requests(text, block, b, steps, _left(state))


def _steps_at_once(block: Block) -> int:
    kernel = block.kernel
    if walks_columns(kernel):
        return STEPS_OF_COLUMNS
    if block.pairs is not None:
        return pair_steps(block)
    return _MANY_STEPS if block.isa.multiplies_twice_a_cycle else kernel.usual_steps


def _start(text: FunctionText, block: Block) -> _State:
    """Where the loop starts, its sums zero."""
    kernel, arguments = block.kernel, block.arguments
    b = [block.b_start]
    bases = 1 if walks_columns(kernel) else -(-kernel.columns // block.columns_per_base)
    for _ in range(1, bases):
        b.append(shift_pointer(text, b[-1], block.b_base_step))
    return _State(
        "%A",
        tuple(b),
        arguments.read(text, "k"),
        arguments.read(text, "batch"),
        arguments.read(text, "outer"),
        [["zeroinitializer"] * kernel.vectors for _ in range(kernel.columns)],
    )


def _flat(state: _State) -> list[str]:
    sums = [row for rows in state.sums for row in rows]
    return [state.a, *state.b, *_left(state), *sums]


def _left(state: _State) -> Left:
    return state.k_left, state.batch_left, state.outer_left


def _types(state: _State, kind: str) -> list[str]:
    pointers = ["ptr"] * (1 + len(state.b))
    return [*pointers, *["i64"] * 3, *[kind] * sum(len(rows) for rows in state.sums)]


def _emit_steps(text: FunctionText, block: Block, state: _State, label: str, steps: int) -> _State:
    """A basic block of ``steps`` values of k, back to the loop's head."""
    text.label(label)
    a, b, sums = state.a, state.b, state.sums
    is_one_by_one = False
    if block.pairs is not None:
        sums = emit_pairs(text, block, block.pairs, (a, b), steps, sums)
    elif walks_columns(block.kernel):
        factors = factors_of_steps(text, block, a, steps)
        sums = emit_column_steps(text, block, factors, b[0], sums)
    else:
        is_one_by_one = True
    for _ in range(steps):
        if is_one_by_one:
            sums = emit_step(text, block, a, b, sums)
        a, b = next_step(text, block, a, b)
    k_left = text.value(f"sub i64 {state.k_left}, {steps}")
    text.effect("br label %loop")
    return replace(state, a=a, b=b, k_left=k_left, sums=sums)


def _emit_segment(text: FunctionText, block: Block, state: _State) -> tuple[_State, _State]:
    """The blocks that move on to the next batch or to the next outer, or end the loop.

    A and B stand ``k`` steps, and at the last batch ``batch - 1`` batches, past where they began.
    """
    arguments = block.arguments
    text.label("segment")
    more_batches = text.value(f"icmp sgt i64 {state.batch_left}, 1")
    text.effect(f"br i1 {more_batches}, label %next_batch, label %last_batch")
    text.label("last_batch")
    more_outers = text.value(f"icmp sgt i64 {state.outer_left}, 1")
    text.effect(f"br i1 {more_outers}, label %next_outer, label %finish")

    def moved(
        distance: str, step: str | int, pointers: tuple[str, ...], walked: str
    ) -> tuple[str, ...]:
        """``pointers`` less the ``k`` steps and the bytes ``walked``, plus ``distance``."""
        k = arguments.read(text, "k")
        steps = text.value(f"mul i64 {k}, {step}")
        back = text.value(f"add i64 {steps}, {walked}")
        change = text.value(f"sub i64 {arguments.read(text, distance)}, {back}")
        return tuple(shift_pointer(text, pointer, change) for pointer in pointers)

    text.label("next_batch")
    batch_left = text.value(f"sub i64 {state.batch_left}, 1")
    (a,) = moved("a_batch", block.a_k, (state.a,), "0")
    b = moved("b_batch", block.b_k, state.b, "0")
    next_batch = replace(state, a=a, b=b, k_left=arguments.read(text, "k"), batch_left=batch_left)
    text.effect("br label %loop")

    text.label("next_outer")
    batch = arguments.read(text, "batch")
    batches_before = text.value(f"sub i64 {batch}, 1")

    def walked(distance: str) -> str:
        return text.value(f"mul i64 {arguments.read(text, distance)}, {batches_before}")

    (a,) = moved("a_outer", block.a_k, (state.a,), walked("a_batch"))
    b = moved("b_outer", block.b_k, state.b, walked("b_batch"))
    next_outer = _State(
        a,
        b,
        arguments.read(text, "k"),
        batch,
        text.value(f"sub i64 {state.outer_left}, 1"),
        state.sums,
    )
    text.effect("br label %loop")
    return next_batch, next_outer
