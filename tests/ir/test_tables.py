"""Trees and tables as the specification prints them."""

from __future__ import annotations

from pathlib import Path

from teir.ir.load import load
from teir.ir.parsing import parse_program
from teir.ir.tables import print_tables, print_tree

CASES = Path(__file__).parents[1] / "cases"


def test_trees_of_the_specification() -> None:
    # Listing 10.7.5 and listing 10.7.13
    assert (
        print_tree(load(CASES / "10.7.3-scalar-batched-gemm.teir"))
        == """\
a
└── b
    └── c
        └── d
            ├── zero  [first(a)]
            └── contraction
"""
    )
    assert (
        print_tree(load(CASES / "10.7.7-parallel-brgemm.teir"))
        == """\
p  (parallel)
└── r  (parallel)
    ├── zero
    └── brgemm
"""
    )


def test_a_branching_tree_with_two_roots() -> None:
    program = parse_program("""\
teir 1 "branches"
tensor out: FP32
axis a = 2: out 4
primitive z = Zero(out; M=[], N=[])
sequential r over a
  sequential s over a
    op_s: z
  sequential t over a
    op_t: z
last: z
""")
    assert (
        print_tree(program)
        == """\
r
├── s
│   └── op_s
└── t
    └── op_t
last
"""
    )


def test_all_tables() -> None:
    program = parse_program("""\
teir 1 "tables"
tensor pos: I64
tensor out: FP32
scratch w: FP64
axis i = 2: pos 8, out 4 - 4
axis j = 3; segment pos pos crd pos by_position [out]
primitive z = Zero FP32 (out; M=[], N=[i]) with {"lanes": 8}
primitive c = Contraction(out, w -> t; C=[i], M=[], N=[], K=[])
parallel i over i
  scratch t: FP64
  sequential j over j if first(i) and last(i)
    one: z
    two: c if last(i)
""")
    assert (
        print_tables(program)
        == """\
Schedule tree

i  (parallel)
└── j  [first(i) and last(i)]
    ├── one
    └── two  [last(i)]

Tensors

Tensor  Type  Scratch of
------  ----  -------------
pos     I64
out     FP32
w       FP64  the whole run
t       FP64  node i

TEIR-Axes, in bytes

Axis  Extent  Strides (pos, out, w, t)  Offsets
----  ------  ------------------------  -------------
i     2       (8, 4, 0, 0)              (0, -4, 0, 0)
j     3       (0, 0, 0, 0)              (0, 0, 0, 0)

Segments

Axis  pos  crd  by_position
----  ---  ---  -----------
j     pos  pos  [out]

Iteration nodes

Node  Axis  Policy      Children    Guard
----  ----  ----------  ----------  --------------------
i     i     parallel    [j]         None
j     j     sequential  [one, two]  first(i) and last(i)

Invocation nodes

Node  Primitive  Guard
----  ---------  -------
one   z          None
two   c          last(i)

TEIR-Primitives

Primitive  Operation    Operands     Axes                           Metadata
---------  -----------  -----------  -----------------------------  ---------------------------
z          Zero         out          {M: [], N: [i]}                {data_type: FP32, lanes: 8}
c          Contraction  out, w -> t  {C: [i], M: [], N: [], K: []}  {}
"""
    )
