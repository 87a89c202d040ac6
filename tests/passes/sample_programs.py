"""Programs for the tests of passes, and the test every pass must stand."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from cases.case_file import read_case
from teir.ir.check import check
from teir.ir.nodes import Program
from teir.soak.draws import seeded
from teir.soak.operands import differences, draw_images
from teir.soak.programs import draw_program
from teir.soak.running import evaluated

Pass = Callable[[Program], Program]
CASES = tuple(
    path
    for path in sorted((Path(__file__).parent.parent / "cases").iterdir())
    if path.suffix in (".teir", ".json")
)


def assert_keeps_meaning(apply: Pass, program: Program, largest: int, seed: int) -> bool:
    """Check and evaluate the result of a pass; True where the pass did something."""
    after = apply(program)
    if after is program:
        return False
    report = check(after)
    assert report.ok, f"seed {seed}: {report.findings[0]}"
    images = draw_images(program, seed, largest)
    wrong = list(differences(evaluated(program, images, 1), evaluated(after, images, 2)))
    assert not wrong, f"seed {seed}: {wrong}"
    return True


def drawn_programs(apply: Pass, seeds: range, work: int = 1500) -> int:
    """How many of the random programs the pass changed."""
    changed = 0
    for seed in seeds:
        drawn = draw_program(seeded(seed), work)
        if not drawn.divisors:
            changed += assert_keeps_meaning(apply, drawn.program, drawn.largest, seed)
    return changed


@cache
def case_programs() -> tuple[Program, ...]:
    return tuple(read_case(path).program for path in CASES)


def product(
    m: int, n: int, k: int, order: str = "mnk", finish: bool = True, data_type: str = "FP32"
) -> str:
    """The text of an all-sequential column-major product with scalar primitives."""
    width = 8 if data_type == "FP64" else 4
    guard = " if first(k)" if k > 1 else ""
    loops = [f"{'  ' * depth}sequential {axis} over {axis}" for depth, axis in enumerate(order)]
    inner = "  " * len(order)
    last = [f"{inner}relu: relu_scalar if last(k)"] if finish else []
    relu = [f"primitive relu_scalar = ReLU {data_type} (out -> out; M=[], N=[])"] if finish else []
    return "\n".join(
        [
            'teir 1 "product"',
            *(f"tensor {name}: {data_type}" for name in ("in0", "in1", "out")),
            f"axis m = {m}: in0 {width}, out {width}",
            f"axis n = {n}: in1 {width * k}, out {width * m}",
            f"axis k = {k}: in0 {width * m}, in1 {width}",
            f"primitive zero_scalar = Zero {data_type} (out; M=[], N=[])",
            f"primitive product_scalar = Contraction {data_type} (in0, in1 -> out; "
            "M=[], N=[], K=[])",
            *relu,
            *loops,
            f"{inner}zero: zero_scalar{guard}",
            f"{inner}product: product_scalar",
            *last,
            "",
        ]
    )


def product_in_layout(m: int, n: int, k: int, adjacent: str) -> str:
    """A scalar product; ``adjacent`` names the adjacent axis of in0, in1 and out: "mkm"."""
    text = product(m, n, k)
    in0, in1, out = adjacent
    rows = {
        "m": f"in0 {4 if in0 == 'm' else 4 * k}, out {4 if out == 'm' else 4 * n}",
        "n": f"in1 {4 if in1 == 'n' else 4 * k}, out {4 if out == 'n' else 4 * m}",
        "k": f"in0 {4 if in0 == 'k' else 4 * m}, in1 {4 if in1 == 'k' else 4 * n}",
    }
    lines = [
        f"{line.partition(':')[0]}: {rows[line[5]]}" if line.startswith("axis ") else line
        for line in text.splitlines()
    ]
    return "\n".join(lines) + "\n"
