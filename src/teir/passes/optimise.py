"""The passes in their order, with the program after each.

drop trivial axes       loops and axes of one index go
fuse axes               axes that walk memory as one become one
split axes              only where the user bounds kernel sizes
identify primitives     loops around single elements become tiles
lift zero               what a reduction loop does once leaves it
order axes              the loops that are left, for locality
promote batch           small products become one batched primitive
parallelise             the threads share what is independent
block caches            large tiles are cut for the caches, loops over blocked ones ordered for them
pack operands           operands are copied into the order kernels read
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from teir.ir.nodes import Program
from teir.passes.block_caches import block_caches
from teir.passes.drop_trivial_axes import drop_trivial_axes
from teir.passes.facts import Facts
from teir.passes.fuse_axes import fuse_axes
from teir.passes.identify_primitives import identify_primitives
from teir.passes.lift_zero import lift_zero
from teir.passes.order_axes import order_axes
from teir.passes.pack_operands import pack_operands
from teir.passes.parallelise import parallelise
from teir.passes.promote_batch import promote_batch
from teir.passes.split_axes import split_axes

Pass = Callable[[Program], Program]


def pass_list(facts: Facts) -> tuple[tuple[str, Pass], ...]:
    """The passes for a machine: name and function, in the order they run."""
    return (
        ("drop trivial axes", drop_trivial_axes),
        ("fuse axes", partial(fuse_axes, min_kernel_size=facts.min_kernel_size)),
        ("split axes", partial(_split, facts=facts)),
        ("identify primitives", identify_primitives),
        ("lift zero", lift_zero),
        ("order axes", partial(order_axes, facts=facts)),
        ("promote batch", promote_batch),
        ("parallelise", partial(parallelise, facts=facts)),
        ("block caches", partial(block_caches, facts=facts)),
        ("pack operands", partial(pack_operands, facts=facts)),
    )


def optimise(program: Program, facts: Facts) -> tuple[tuple[str, Program], ...]:
    """(pass name, program after it) for every pass; the last program is the result.

    ``program`` must be well formed and race-free; every program returned is so too. A pass that
    had nothing to do returns the program it was given.
    """
    steps: list[tuple[str, Program]] = []
    for name, apply in pass_list(facts):
        program = apply(program)
        steps.append((name, program))
    return tuple(steps)


def _split(program: Program, facts: Facts) -> Program:
    if facts.max_kernel_size is None:
        return program
    return split_axes(program, facts.max_kernel_size, facts.min_kernel_size or 1)
