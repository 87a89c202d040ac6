"""The programs of figure 7: every operation, type and memory layout the lowering tells apart.

A family is everything but one extent; that extent then runs from 1 to 64, so each kernel meets
every remainder of its vectors and register blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from teir.dtypes import DataType
from teir.ir.lanes import LANES
from teir.ir.nodes import Axis, Bytes, InvocationNode, Operation, Primitive, Program, Tensor
from teir.lower.permutation import PERMUTED_BYTES
from teir.soak.parts import BINARY, FLOATS, ORDERED

PRODUCT_TYPES = (
    *((data_type, data_type) for data_type in FLOATS),
    (DataType.BF16, DataType.FP32),
    (DataType.FP16, DataType.FP32),
)
PRODUCTS = 9
"""Products of a batch, where the batch is not the remainder."""
GAP = 3
"""Elements between two columns, so that a leading dimension is no extent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One operation on tensors of two axes (k and c apart), each tensor with its own memory order.

    ``orders`` maps a tensor to its axes, fastest first; ``step`` is the distance of neighbours
    along the fastest axis in elements.
    """

    operation: Operation
    types: Mapping[str, DataType]
    orders: Mapping[str, str]
    step: int = 1
    along: str = "m"
    """The axis whose extent is the remainder."""
    lanes: int | None = None
    """Chains of a sum, where the program names them."""
    least_elements: int = 0
    """The tile has at least as many, so that kernels for large tiles are called."""

    def __str__(self) -> str:
        kinds = " ".join(f"{name}:{kind.value}" for name, kind in self.types.items())
        orders = " ".join(f"{name}:{order or '-'}" for name, order in self.orders.items())
        lanes = "" if self.lanes is None else f"; {self.lanes} lanes"
        steps = f"step {self.step}; along {self.along}{lanes}"
        return f"{self.operation.value} {kinds}; {orders}; {steps}"


def kernel_families() -> tuple[Family, ...]:
    """All families, in a fixed order."""
    return (
        *_products(),
        *_general_products(),
        *_sums_in_lanes(),
        *_batches(),
        *_elementwise(),
        *_copies(),
        *_permutations(),
    )


def family_program(family: Family, remainder: int) -> Program:
    """One invocation of the family's operation with ``remainder`` elements along its axis."""
    other = max(1 + remainder * 5 % 14, -(-family.least_elements // remainder))
    extents = {"m": other, "n": other, "k": 1 + remainder * 3 % 11, "c": PRODUCTS}
    extents[family.along] = remainder
    strides: dict[str, dict[str, int]] = {name: {} for name in extents}
    for tensor, order in family.orders.items():
        reach = family.step
        for name in order:
            strides[name][tensor] = reach * family.types[tensor].width
            reach = reach * extents[name] + GAP
    consumed = [name for name in "cmnk" if strides[name]]
    inputs = tuple(name for name in family.types if name != "out")
    primitive = Primitive(
        name="p",
        operation=family.operation,
        inputs=inputs,
        output="out",
        c=tuple(name for name in consumed if name == "c"),
        m=tuple(name for name in consumed if name == "m"),
        n=tuple(name for name in consumed if name == "n"),
        k=tuple(name for name in consumed if name == "k"),
        metadata=() if family.lanes is None else ((LANES, str(family.lanes)),),
    )
    return Program(
        name=str(family),
        tensors=tuple(Tensor(name=name, data_type=kind) for name, kind in family.types.items()),
        axes=tuple(
            Axis(name=name, extent=extents[name], strides=Bytes(strides[name])) for name in consumed
        ),
        primitives=(primitive,),
        roots=(InvocationNode(name="call", primitive="p"),),
    )


def _products() -> Iterator[Family]:
    layouts = [(*orders, 1) for orders in product(("mk", "km"), ("kn", "nk"), ("mn", "nm"))]
    for (in_type, out_type), (first, second, out, step) in product(
        PRODUCT_TYPES, [*layouts, ("mk", "kn", "mn", 2)]
    ):
        for along in "mnk":
            yield Family(
                operation=Operation.CONTRACTION,
                types={"in0": in_type, "in1": in_type, "out": out_type},
                orders={"in0": first, "in1": second, "out": out},
                step=step,
                along=along,
            )


def _general_products() -> Iterator[Family]:
    """One and three inputs, and reductions to vectors and scalars."""
    shapes = (("mk", "", "", "m"), ("km", "", "", "m"), ("mk", "k", "m", "m"), ("k", "k", "k", ""))
    for (in_type, out_type), (first, second, third, out), inputs, along in product(
        PRODUCT_TYPES, shapes, (1, 2, 3), "mk"
    ):
        orders = (first, second, third)[:inputs]
        if not orders[-1] or along not in first:
            continue
        named = {f"in{number}": order for number, order in enumerate(orders)}
        yield Family(
            operation=Operation.CONTRACTION,
            types=dict.fromkeys(named, in_type) | {"out": out_type},
            orders={**named, "out": out},
            along=along,
        )


def _sums_in_lanes() -> Iterator[Family]:
    """Dots and products of a matrix and a vector, adjacent and strided along k."""
    shapes = (("km", "k", "m", 32), ("k", "k", "", 8), ("km", "mk", "m", 16), ("km", "", "m", 4))
    for (in_type, out_type), (first, second, out, lanes), along in product(
        PRODUCT_TYPES, shapes, "mk"
    ):
        if along not in first:
            continue
        named = {"in0": first} | ({"in1": second} if second else {})
        yield Family(
            operation=Operation.CONTRACTION,
            types=dict.fromkeys(named, in_type) | {"out": out_type},
            orders={**named, "out": out},
            along=along,
            lanes=lanes,
        )


def _batches() -> Iterator[Family]:
    """Small products with the batch innermost, then outermost."""
    layouts = (
        ("cmk", "ckn", "cmn", "c"),
        ("cmk", "ckn", "cmn", "k"),
        ("mkc", "knc", "mnc", "m"),
        ("mkc", "nkc", "mnc", "k"),
    )
    for (in_type, out_type), (first, second, out, along) in product(PRODUCT_TYPES, layouts):
        yield Family(
            operation=Operation.CONTRACTION,
            types={"in0": in_type, "in1": in_type, "out": out_type},
            orders={"in0": first, "in1": second, "out": out},
            along=along,
        )


def _elementwise() -> Iterator[Family]:
    layouts = (
        ("mn", "mn", "mn", 1),
        ("nm", "mn", "mn", 1),
        ("mn", "n", "mn", 1),
        ("m", "mn", "nm", 1),
        ("mn", "mn", "mn", 2),
    )
    operations = (Operation.ZERO, Operation.RELU, *BINARY)
    for data_type, operation, (first, second, out, step) in product(FLOATS, operations, layouts):
        if data_type.is_complex and operation in ORDERED:
            continue
        arity = 2 if operation in BINARY else 0 if operation is Operation.ZERO else 1
        named = dict(list(zip(("in0", "in1"), (first, second), strict=True))[:arity])
        yield Family(
            operation=operation,
            types=dict.fromkeys([*named, "out"], data_type),
            orders={**named, "out": out},
            step=step,
        )


def _copies() -> Iterator[Family]:
    layouts = (("mn", "mn", 1), ("nm", "mn", 1), ("mn", "nm", 1), ("m", "mn", 1), ("mn", "nm", 2))
    for in_type, out_type, (source, out, step) in product(FLOATS, FLOATS, layouts):
        if in_type.is_complex and not out_type.is_complex:
            continue
        for along in "mn" if in_type is out_type else "m":
            yield Family(
                operation=Operation.COPY,
                types={"in0": in_type, "out": out_type},
                orders={"in0": source, "out": out},
                step=step,
                along=along,
            )


def _permutations() -> Iterator[Family]:
    """Copies large enough for the kernels that permute through scratch."""
    for data_type, along in product(FLOATS, "mn"):
        yield Family(
            operation=Operation.COPY,
            types={"in0": data_type, "out": data_type},
            orders={"in0": "mn", "out": "nm"},
            along=along,
            least_elements=PERMUTED_BYTES // data_type.width,
        )
