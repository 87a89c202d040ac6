"""One dense step to TEIR: a copy, an element-wise product, a sum, or a matrix-like contraction.

The order of the sum over K is fixed here and never touched by blocking or packing: those change
no bit of a result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec.structs import replace

from teir.dtypes import DataType
from teir.passes.parallelise import CHUNKS
from teir.search.alternating import alternating_result
from teir.search.batches import emit_small_batch, is_small_batch
from teir.search.choice import Choice
from teir.search.copies import emit_copy
from teir.search.default_choice import default_choice
from teir.search.dots import dots_of, emit_dots
from teir.search.elementwise import emit_product, emit_sum
from teir.search.emission import Body, Emission
from teir.search.few_dots import emit_few_dots, few_dots_of
from teir.search.followed_rows import followed_depth
from teir.search.fused_rows import fused_rows
from teir.search.gathered_rows import gathered_rows
from teir.search.in_parts import EmitStep, InParts, emit_in_parts
from teir.search.joined_dots import emit_joined_rows, joined_rows_of
from teir.search.lane_step import lane_step_of
from teir.search.lanes import emit_lanes
from teir.search.machine import Machine
from teir.search.matrix_loops import emit_contraction
from teir.search.matrix_order import as_matrix_lies
from teir.search.mixed_types import is_mixed, mixed, mixed_blocks
from teir.search.narrow_batches import narrow_batch
from teir.search.packed_tiles import packed_tile_choice
from teir.search.parted_dots import emit_parted_dots, parted_dots_of
from teir.search.parted_lanes import emit_parted_lanes, laid_for_lanes, parted_lanes_of
from teir.search.parted_sweeps import emit_parted_sweep, parted_rows_of, parted_sweep_of
from teir.search.pieces import are_near, emit_pieces, pieces_of, standing_inputs
from teir.search.relaid import emit_relaid_copy, relaid
from teir.search.repeated_results import repeated_result
from teir.search.row_dots import are_row_dots, emit_row_dots
from teir.search.shape import ProductShape, extent_of, outermost_first, product_shape
from teir.search.shared_sums import emit_shared_sum, shared_sum
from teir.search.sites import emit_sites, sites_along
from teir.search.step import Step, normalise
from teir.search.stepped_operands import on_dense_copies, stepped_inputs, stepped_pieces
from teir.search.summed_twice import emit_summed_twice, near_sums_of
from teir.search.sweeps import emit_sweep, is_sweep
from teir.search.tiles import OutputTile, emit_through_tile, output_tile
from teir.search.turned_batches import turned_batches
from teir.search.turned_dots import emit_turned_dot, turned_dot_of
from teir.search.turned_factors import turned_factor
from teir.search.turned_lanes import turned_lanes
from teir.search.turned_outer import emit_turned_operand, turned_operand
from teir.search.turned_pairs import emit_turned_pair, turned_pair_of
from teir.search.turned_products import emit_turned_copy, turned_product
from teir.search.turned_results import may_be_turned, turned_result, turned_runs
from teir.search.turned_sums import turned_sum
from teir.search.widened import widened

Choose = Callable[[ProductShape, Machine], Choice]
"""Who makes the decisions of a matrix-like step."""


def emit_step(
    emission: Emission,
    step: Step,
    machine: Machine,
    choose: Choose = default_choice,
    *,
    lays: bool = True,
    turns: bool = True,
) -> Body:
    """The nodes of one step. Strides must not be negative.

    ``choose`` makes the decisions where the step is a matrix-like contraction. ``lays``: an
    operand may be laid otherwise first; ``turns``: its result may be made in another order and
    moved. Either is done once.
    """
    step = normalise(step)
    emit = partial(emit_step, choose=choose, lays=lays, turns=turns)
    inner = _Inner(
        whole=emit,
        laid=partial(emit, lays=False) if lays else None,
        turned=partial(emit, turns=False) if turns else None,
        tried=partial(emit_step, lays=lays, turns=False),
    )
    if is_mixed(step):
        return _emit_mixed(emission, step, machine, inner, emit)
    repeated = repeated_result(emission, step)
    if repeated is not None:
        return emit_in_parts(emission, repeated, machine, emit)
    stepped = stepped_inputs(step)
    if stepped:
        pieces = stepped_pieces(step, stepped, machine)
        if pieces is not None:
            still = standing_inputs(step, pieces)
            return emit_pieces(emission, step, pieces, machine, emit, still)
        dense = on_dense_copies(emission, step, stepped)
        return _emit_moved(emission, step, dense, machine, inner, emit)
    shared = shared_sum(step, machine) if machine.threads > 1 else None
    if shared is not None:
        return emit_shared_sum(emission, step, shared, machine, emit)
    if not _has_rows_and_columns(step):
        near = near_sums_of(step, machine)
        if near:
            return emit_summed_twice(emission, step, near, machine, emit)
        body = _emit_without_matrix(emission, step, machine, inner)
        if body is not None:
            return body
    shape = product_shape(step)
    assert shape is not None
    if step.inputs[0].data_type is DataType.FP16:
        is_better = machine.multiplies_twice or few_dots_of(shape) is None
        wide = widened(emission, step, machine) if is_better else None
        if wide is not None:
            return _emit_moved(emission, step, wide, machine, inner, emit)
    body = _emit_of_its_own(emission, shape, machine)
    if body is not None:
        return body
    if shape.n is None:
        shape = as_matrix_lies(shape, machine)
    return _emit_matrix(emission, step, shape, machine, choose, inner)


class _Inner(msgspec.Struct, frozen=True):
    """Who makes a piece of the step; a step with an operand laid otherwise, and one whose result
    is moved; None where that was done, or must not be. ``tried`` makes programs that are compared
    only, with default choices: what is tuned are the steps of the one that is taken."""

    whole: EmitStep
    laid: EmitStep | None
    turned: EmitStep | None
    tried: EmitStep


def _emit_mixed(
    emission: Emission, step: Step, machine: Machine, inner: _Inner, emit: EmitStep
) -> Body:
    """A product of factors of two types, in blocks where its copies would not be near."""
    blocks = mixed_blocks(step, machine)
    if blocks is not None:
        still = standing_inputs(step, blocks)
        return emit_pieces(emission, step, blocks, machine, inner.whole, still)
    return _emit_moved(emission, step, mixed(emission, step), machine, inner, emit)


def _emit_moved(
    emission: Emission,
    step: Step,
    parts: InParts,
    machine: Machine,
    inner: _Inner,
    emit: EmitStep,
) -> Body:
    """A step with copies around it, whose product ``emit`` makes; in pieces where what one core
    wrote would still be in its caches when another reads it."""
    pieces = pieces_of(step, machine) if are_near(step, machine) else None
    if pieces is None:
        return emit_in_parts(emission, parts, machine, emit)
    emission.release(parts.scratch)
    return emit_pieces(emission, step, pieces, machine, inner.whole, frozenset())


def _emit_of_its_own(emission: Emission, shape: ProductShape, machine: Machine) -> Body | None:
    """The nodes of a product of a kind that has kernels of its own; None for all others."""
    sites = sites_along(shape, machine)
    if sites is not None:
        return emit_sites(emission, sites, shape, machine)
    if shape.c and is_small_batch(shape):
        return emit_small_batch(emission, shape, machine)
    if shape.n is None:
        parted = parted_sweep_of(shape)
        if parted is not None:
            return emit_parted_sweep(emission, parted, machine)
        if is_sweep(shape):
            return emit_sweep(emission, shape, machine)
    if shape.m_outer and shape.n_outer:
        # One side of dots at least is one axis.
        return None
    if are_row_dots(shape):
        return emit_row_dots(emission, shape, machine)
    dots = few_dots_of(shape)
    return None if dots is None else emit_few_dots(emission, dots, machine)


def _emit_matrix(
    emission: Emission,
    step: Step,
    shape: ProductShape,
    machine: Machine,
    choose: Choose,
    inner: _Inner,
) -> Body:
    """The nodes of a matrix-like contraction, with copies around it where tensors lie across."""
    tile = output_tile(step, shape, machine)
    if tile is not None:
        return _emit_tile(emission, step, tile, machine, inner)
    if inner.turned is not None and may_be_turned(shape, machine):
        result = turned_result(emission, step, machine)
        if result is None:
            result = alternating_result(emission, step, shape, machine, inner.tried)
        if result is not None:
            return _emit_moved(emission, step, result, machine, inner, inner.turned)
    parted = parted_rows_of(shape, machine) if shape.n is None else None
    if parted is not None:
        return emit_parted_sweep(emission, parted, machine)
    if inner.laid is not None:
        rows = gathered_rows(emission, step, shape) or fused_rows(emission, step, shape)
        if rows is not None:
            return _emit_moved(emission, step, rows, machine, inner, inner.laid)
    across = turned_product(emission, step, shape, machine)
    if across is not None:
        body = emit_contraction(emission, across.shape, machine, choose(across.shape, machine))
        return body + emit_turned_copy(emission, across, machine)
    moved = relaid(emission, step, shape, machine)
    if moved is None:
        return emit_contraction(emission, shape, machine, choose(shape, machine))
    laid = product_shape(moved.product)
    assert laid is not None
    return emit_relaid_copy(emission, moved, machine) + emit_contraction(
        emission, laid, machine, choose(laid, machine)
    )


def _emit_tile(
    emission: Emission, step: Step, tile: OutputTile, machine: Machine, inner: _Inner
) -> Body:
    """The nodes of a product through tiles of results, in pieces where threads share it."""
    pieces = pieces_of(step, machine)
    if pieces is not None:
        return emit_pieces(emission, step, pieces, machine, inner.whole, frozenset())
    alone = replace(machine, threads=1) if machine.threads > 1 else machine
    return emit_through_tile(
        emission,
        step,
        tile,
        partial(_emit_tile_product, emission, machine=alone),
        partial(_emit_packed_tile, emission, machine=alone),
        parallel=machine.threads > 1,
    )


def _has_rows_and_columns(step: Step) -> bool:
    """True for a sum of products of which either input alone has an axis, and no axis moves all."""
    if len(step.inputs) != 2:
        return False
    (first, second), out = step.inputs, step.output
    has_rows = has_columns = has_sum = False
    for axis in step.axes:
        strides = axis.strides
        in_first, in_second = strides.get(first.name), strides.get(second.name)
        if not strides.get(out.name):
            has_sum = True
        elif in_first and in_second:
            return False
        else:
            has_rows = has_rows or bool(in_first)
            has_columns = has_columns or bool(in_second)
    return has_rows and has_columns and has_sum


def _emit_without_matrix(
    emission: Emission, step: Step, machine: Machine, inner: _Inner
) -> Body | None:
    """The nodes of a step that is no sum of products, or one of single rows or columns, or with
    batches along which lanes run, or that lie inside an operand; None for all others."""
    pair = turned_pair_of(step)
    if pair is not None:
        return emit_turned_pair(emission, pair, machine)
    turned = turned_operand(step)
    if turned is not None:
        return emit_turned_operand(emission, step, turned, machine)
    factor = None if inner.laid is None else turned_factor(emission, step, machine)
    if inner.laid is not None and factor is not None:
        return _emit_moved(emission, step, factor, machine, inner, inner.laid)
    if inner.turned is not None:
        made = turned_sum(emission, step) or turned_runs(emission, step)
        if made is not None:
            return _emit_moved(emission, step, made, machine, inner, inner.turned)
    body = _emit_plain(emission, step, machine)
    return _emit_batches(emission, step, machine, inner) if body is None else body


def _emit_batches(emission: Emission, step: Step, machine: Machine, inner: _Inner) -> Body | None:
    """The nodes of batches along which lanes run, or that are moved for them or out of the way;
    None for all others."""
    lanes = lane_step_of(step)
    if inner.turned is not None:
        moved = turned_lanes(emission, step) or turned_result(emission, step, machine)
        if moved is None and lanes is not None:
            moved = narrow_batch(emission, lanes, machine)
        if moved is not None:
            return _emit_moved(emission, step, moved, machine, inner, inner.turned)
    if lanes is not None:
        laid = None if inner.laid is None else laid_for_lanes(emission, lanes, machine)
        if inner.laid is not None and laid is not None:
            return _emit_moved(emission, step, laid, machine, inner, inner.laid)
        parted = parted_lanes_of(lanes, machine)
        if parted is not None:
            return emit_parted_lanes(emission, parted, machine)
        are_few = extent_of(lanes.c) < CHUNKS * machine.threads
        pieces = pieces_of(step, machine) if are_few else None
        if pieces is not None:
            return emit_pieces(emission, step, pieces, machine, inner.whole, frozenset())
        return emit_lanes(emission, lanes, machine)
    batches = None if inner.laid is None else turned_batches(emission, step, machine)
    if inner.laid is None or batches is None:
        return None
    return _emit_moved(emission, step, batches, machine, inner, inner.laid)


def _emit_plain(emission: Emission, step: Step, machine: Machine) -> Body | None:
    """The nodes of a step that is no sum of products, or one of dots; None for all others."""
    dots = dots_of(step) if step.reductions else None
    if dots is not None:
        parted = parted_dots_of(dots)
        if parted is not None:
            return emit_parted_dots(emission, parted, machine)
        return emit_dots(emission, dots, machine)
    joined = joined_rows_of(step) if step.reductions else None
    if joined is not None:
        return emit_joined_rows(emission, joined, machine)
    turned = turned_dot_of(step)
    if turned is not None:
        return emit_turned_dot(emission, turned, machine)
    if len(step.inputs) == 1:
        if step.reductions:
            return emit_sum(emission, step, machine)
        return emit_copy(emission, step, machine)
    return None if step.reductions else emit_product(emission, step, machine)


def _emit_tile_product(emission: Emission, step: Step, machine: Machine) -> Body:
    """The product of one tile; the large input comes from memory, so it is asked for ahead.

    All rows of a leaf together: what is asked for is then a slab further on. Loops follow the
    inputs, which are far, not the tile. Where sums are cut so that the processor reads ahead, rows
    stay in blocks: 0.27 to 0.76 of the time up to 24 columns (Golden Cove).
    """
    shape = product_shape(normalise(step))
    assert shape is not None
    shape = replace(
        shape,
        m_outer=outermost_first(shape.m_outer, shape.a),
        n_outer=outermost_first(shape.n_outer, shape.b),
    )
    choice = default_choice(shape, machine)
    asks_for_both = choice.prefetches_a and choice.prefetches_b
    if asks_for_both or followed_depth(shape, machine) is not None:
        return emit_contraction(emission, shape, machine, choice)
    carries_lanes = shape.rows >= shape.columns
    choice = replace(
        choice,
        row_block=1 if shape.m is None else shape.m.extent,
        prefetches_a=carries_lanes,
        prefetches_b=not carries_lanes,
    )
    return emit_contraction(emission, shape, machine, choice)


def _emit_packed_tile(emission: Emission, step: Step, is_near: bool, machine: Machine) -> Body:
    """The product of one tile of a large input, packed; its results go to the output."""
    shape = product_shape(normalise(step))
    assert shape is not None
    return emit_contraction(emission, shape, machine, packed_tile_choice(shape, is_near, machine))
