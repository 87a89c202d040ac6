"""Loop-nest pseudocode as the listings of section 10.7 write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from teir.ir.load import load
from teir.ir.loopnest import print_loopnest
from teir.ir.parsing import parse_program

CASES = Path(__file__).parents[1] / "cases"

LISTINGS = {
    # Listing 10.7.2
    "10.7.1-scalar-permutation": """\
for a in 0 .. |a|-1
  for b in 0 .. |b|-1
    for c in 0 .. |c|-1
      for d in 0 .. |d|-1
        out[d][c][b][a] = in0[a][b][c][d]
""",
    # Listing 10.7.4 with |b| = 4, |c| = 5, |d| = 7, |a| = 3
    "10.7.2-tiled-permutation": """\
for b in 0 .. |b|-1
  for c in 0 .. |c|-1
    Copy( in0 = &in0[0][b][c][0],
          out = &out[0][c][b][0],
          ldA = 140,
          ldB = 60 )
""",
    # Listing 10.7.6
    "10.7.3-scalar-batched-gemm": """\
for a in 0 .. |a|-1
  for b in 0 .. |b|-1
    for c in 0 .. |c|-1
      for d in 0 .. |d|-1
        if a == 0:
          out[d][b][c] = 0
        out[d][b][c] += in0[d][b][a] * in1[d][a][c]
""",
    # Listing 10.7.8
    "10.7.4-scalar-batched-gemm-reordered": """\
for b in 0 .. |b|-1
  for c in 0 .. |c|-1
    for d in 0 .. |d|-1
      out[d][b][c] = 0
      for a in 0 .. |a|-1
        out[d][b][c] += in0[d][b][a] * in1[d][a][c]
""",
    # Listing 10.7.10
    "10.7.5-scalar-contraction": """\
for p in 0 .. |p|-1
  for q in 0 .. |q|-1
    for r in 0 .. |r|-1
      for s in 0 .. |s|-1
        out[p][q][r][s] = 0
        for t in 0 .. |t|-1
          for u in 0 .. |u|-1
            out[p][q][r][s] += in0[t][r][u][s] * in1[p][q][t][u]
""",
    # Listing 10.7.12 with |s| = 8, |t| * |u| = 32, |r| * |s| = 24
    "10.7.6-gemm-contraction": """\
for p in 0 .. |p|-1
  for r in 0 .. |r|-1
    Zero( out = &out[p][0][r][0],
          ldB = 24 )
    for t in 0 .. |t|-1
      Contraction( in0 = &in0[t][r][0][0],
                   in1 = &in1[p][0][t][0],
                   out = &out[p][0][r][0],
                   ldA = 8,
                   ldB = 32,
                   ldC = 24 )
""",
    # Listing 10.7.14
    "10.7.7-parallel-brgemm": """\
#pragma omp parallel for collapse(2)
for p in 0 .. |p|-1
  for r in 0 .. |r|-1
    Zero( out = &out[p][0][r][0],
          ldB = 24 )
    Contraction( in0    = &in0[0][r][0][0],
                 in1    = &in1[p][0][0][0],
                 out    = &out[p][0][r][0],
                 ldA    = 8,
                 ldB    = 32,
                 ldC    = 24,
                 brSize = |t|,
                 brStrA = 384,
                 brStrB = 16 )
""",
}


@pytest.mark.parametrize("name", LISTINGS)
def test_a_listing_of_the_specification(name: str) -> None:
    extents, _, loops = print_loopnest(load(CASES / f"{name}.teir")).partition("\n\n")
    assert extents.startswith("where |")
    assert loops == LISTINGS[name]


def test_guards_offsets_scratch_and_sparse_loops() -> None:
    program = parse_program("""\
teir 1 "everything"
tensor pos: I32
tensor crd: I32
tensor B: FP64
tensor in0: FP64
tensor out: FP64
axis i = 4: pos 4, out 64
axis j = 5: crd 4, B 8, in0 64; segment pos pos crd crd by_position [B]
axis m = 3: in0 8 + 16, out 8 - 8
primitive copy = Max(in0, B -> t; M=[], N=[])
primitive sub = Sub(in0, t -> out; M=[m], N=[])
primitive relu = ReLU(out -> out; M=[], N=[])
parallel i over i
  scratch t: FP64
  sequential j over j if first(i) and last(i)
    copy: copy
    sub: sub
  parallel m over m
    relu: relu
""")
    assert (
        print_loopnest(program)
        == """\
where |i| = 4, |j| = 5, |m| = 3

#pragma omp parallel for
for i in 0 .. |i|-1
  scratch t: FP64
  if i == 0 and i == |i|-1:
    for j in crd[pos[i] .. next pos[i] - 1]
      t[0] = max(in0[j], B[position of j in crd])
      Sub( in0 = &(in0[j][0] + 16 bytes),
           in1 = &t[0],
           out = &(out[i][0] - 8 bytes) )
  #pragma omp parallel for
  for m in 0 .. |m|-1
    (out[i][m] - 8 bytes) = max((out[i][m] - 8 bytes), 0)
"""
    )


def test_element_wise_operations_and_intersections() -> None:
    program = parse_program("""\
teir 1 "signs"
tensor pos: I32
tensor crd: I32
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis j = 5: in0 4; segment pos pos crd crd; segment pos pos crd crd by_position [in1]
primitive add = Add(in0, in1 -> out; M=[], N=[])
primitive min = Min(in0, in1 -> out; M=[], N=[])
sequential j over j
  add: add
  min: min
""")
    assert (
        print_loopnest(program).partition("\n\n")[2]
        == """\
for j in crd[pos .. next pos - 1] and crd[pos .. next pos - 1]
  out[0] = in0[j] + in1[0]
  out[0] = min(in0[j], in1[0])
"""
    )
