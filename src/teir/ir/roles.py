"""The role vocabulary of each operation (Table 10.3.2; C and the binaries: language reference)."""

from __future__ import annotations

from typing import assert_never

from teir.ir.nodes import Operation, Role


def required_roles(operation: Operation) -> tuple[Role, ...]:
    """The roles for which a primitive of this operation must define a list, empty or not."""
    match operation:
        case Operation.CONTRACTION:
            return (Role.M, Role.N, Role.K)
        case (
            Operation.ZERO
            | Operation.COPY
            | Operation.RELU
            | Operation.ADD
            | Operation.SUB
            | Operation.MUL
            | Operation.DIV
            | Operation.MIN
            | Operation.MAX
        ):
            return (Role.M, Role.N)
        case _:
            assert_never(operation)


def allowed_roles(operation: Operation) -> tuple[Role, ...]:
    """The required roles, and for a Contraction the optional C."""
    if operation is Operation.CONTRACTION:
        return (Role.C, *required_roles(operation))
    return required_roles(operation)
