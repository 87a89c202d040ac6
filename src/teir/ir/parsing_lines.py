"""The lines of the text form, each read from a cursor; the grammar stands in `parsing`."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from teir.dtypes import DataType
from teir.errors import TextPlace
from teir.ir.cursor import Cursor
from teir.ir.json_scan import scan
from teir.ir.name_rules import NameSpace
from teir.ir.nodes import (
    Axis,
    Bytes,
    GuardKind,
    GuardTerm,
    Operation,
    Policy,
    Primitive,
    Role,
    Segment,
    Tensor,
)
from teir.ir.reading_rules import HEADER
from teir.ir.record_rules import (
    DATA_TYPE,
    GUARD_TERM,
    METADATA_KEY,
    OPERATION,
    ROLE_NAME,
    ROLE_REQUIRED,
)
from teir.ir.roles import required_roles

References = dict[tuple[NameSpace, str], TextPlace]
"""The first use of every name that is used."""


_WANTED = {space: f"the name of a {space.value}" for space in NameSpace}
_POLICIES = {policy.value: policy for policy in Policy}
_DATA_TYPES = {data_type.value: data_type for data_type in DataType}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """A node without its children; ``policy`` is None for an invocation.

    ``target`` is the primitive an invocation invokes or the axis an iteration walks.
    """

    name: str
    number: int
    index: int
    """The token of its line that is the name."""
    indent: int
    policy: Policy | None
    target: str
    guard: tuple[GuardTerm, ...]
    scratch: list[Tensor] = field(default_factory=list)

    @property
    def place(self) -> TextPlace:
        return TextPlace(line=self.number, column=self.indent + 1)


def read_header(cursor: Cursor) -> str:
    """``teir 1 "name"``: the name of the program."""
    if not cursor.skip("teir"):
        raise cursor.error('teir 1 "name"', rule=HEADER)
    if cursor.token != "1":
        raise cursor.error("version 1", rule=HEADER)
    cursor.step()
    return cursor.string("the name of the program in quotes")


def read_tensor(cursor: Cursor) -> Tensor:
    """``name: type`` behind the word tensor or scratch."""
    name = cursor.name("the name of a tensor")
    cursor.expect(":")
    return Tensor(name=name, data_type=_data_type(cursor))


def read_axis(cursor: Cursor, references: References) -> Axis:
    """``name = extent: tensor stride + offset, ...; segment ...``."""
    name = cursor.name("the name of an axis")
    cursor.expect("=")
    extent = cursor.integer("an extent")
    strides: dict[str, int] = {}
    offsets: dict[str, int] = {}
    if cursor.skip(":"):
        _read_step(cursor, references, strides, offsets)
        while cursor.skip(","):
            _read_step(cursor, references, strides, offsets)
    segments = []
    while cursor.skip(";"):
        segments.append(_segment(cursor, references))
    return Axis(
        name=name,
        extent=extent,
        strides=Bytes(strides),
        offsets=Bytes(offsets),
        segments=tuple(segments),
    )


def _read_step(
    cursor: Cursor, references: References, strides: dict[str, int], offsets: dict[str, int]
) -> None:
    tensor = _reference(cursor, references, NameSpace.TENSOR)
    if tensor in strides:
        raise cursor.error("each tensor once", found=f"{tensor} again")
    strides[tensor] = cursor.integer("a stride in bytes")
    if cursor.token in ("+", "-"):
        sign = -1 if cursor.token == "-" else 1
        cursor.step()
        offsets[tensor] = sign * cursor.integer("an offset in bytes")


def _segment(cursor: Cursor, references: References) -> Segment:
    cursor.expect("segment")
    cursor.expect("pos")
    pos = _reference(cursor, references, NameSpace.TENSOR)
    cursor.expect("crd")
    crd = _reference(cursor, references, NameSpace.TENSOR)
    by_position: tuple[str, ...] = ()
    if cursor.skip("by_position"):
        by_position = _names(cursor, references, NameSpace.TENSOR)
    return Segment(pos=pos, crd=crd, by_position=by_position)


def read_primitive(cursor: Cursor, references: References) -> Primitive:
    """``name = Operation TYPE (inputs -> output; roles) with {metadata}``."""
    name = cursor.name("the name of a primitive")
    cursor.expect("=")
    operation = _operation(cursor)
    data_type = None if cursor.token == "(" else _data_type(cursor)
    cursor.expect("(")
    inputs, output = _operands(cursor, references)
    cursor.expect(";")
    roles = _roles(cursor, references, operation)
    cursor.expect(")")
    return Primitive(
        name=name,
        operation=operation,
        inputs=inputs,
        output=output,
        c=roles.get(Role.C, ()),
        m=roles.get(Role.M, ()),
        n=roles.get(Role.N, ()),
        k=roles.get(Role.K, ()),
        data_type=data_type,
        metadata=_metadata(cursor) if cursor.token == "with" else (),
    )


def _operands(cursor: Cursor, references: References) -> tuple[tuple[str, ...], str]:
    names = [_reference(cursor, references, NameSpace.TENSOR)]
    while cursor.skip(","):
        names.append(_reference(cursor, references, NameSpace.TENSOR))
    if cursor.skip("->"):
        return tuple(names), _reference(cursor, references, NameSpace.TENSOR)
    if len(names) > 1:
        raise cursor.error("`->` and the output")
    return (), names[0]


def _roles(
    cursor: Cursor, references: References, operation: Operation
) -> dict[Role, tuple[str, ...]]:
    roles: dict[Role, tuple[str, ...]] = {}
    while cursor.is_name:
        role = _role(cursor)
        if role in roles:
            raise cursor.error(f"role {role.value} once")
        cursor.step()
        cursor.expect("=")
        roles[role] = _names(cursor, references, NameSpace.AXIS)
        if not cursor.skip(","):
            break
    missing = [role.value for role in required_roles(operation) if role not in roles]
    if missing:
        raise cursor.error(
            f"a list for every role of {operation.value}",
            rule=ROLE_REQUIRED,
            found=f"none for {', '.join(missing)}",
        )
    return roles


def _role(cursor: Cursor) -> Role:
    try:
        return Role(cursor.token)
    except ValueError:
        raise cursor.error("role C, M, N or K", rule=ROLE_NAME) from None


def _metadata(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    """The JSON object behind ``with``, which reaches to the end of the line or a comment."""
    cursor.step()
    text = cursor.text[cursor.start :]
    scanned = scan(text)
    if scanned.faults:
        fault = scanned.faults[0]
        raise cursor.error(fault.expected, rule=fault.rule, found=f"{fault.found} at {fault.path}")
    try:
        entries = msgspec.json.decode(text[: scanned.end])
    except (msgspec.DecodeError, UnicodeError) as error:
        raise cursor.error("a JSON object", found=str(error)) from error
    if not isinstance(entries, dict):
        raise cursor.error("a JSON object")
    for key in ("data_type", "operands"):
        if key in entries:
            raise cursor.error("other keys", rule=METADATA_KEY, found=f"`{key}`")
    cursor.skip_characters(scanned.end)
    return tuple((key, msgspec.json.encode(entries[key]).decode()) for key in sorted(entries))


def read_node(cursor: Cursor, references: References) -> NodeLine:
    """``policy node over axis if guard`` or ``node: primitive if guard``."""
    indent = len(cursor.text) - len(cursor.text.lstrip(" "))
    policy = _policy(cursor)
    if policy is not None:
        cursor.step()
    elif cursor.following != ":" and cursor.token_after_next == "over":
        raise cursor.error("`sequential` or `parallel`")
    index = cursor.index
    name = cursor.name("a node: `name: primitive`, or `sequential` or `parallel` `name over axis`")
    cursor.expect(":" if policy is None else "over")
    space = NameSpace.PRIMITIVE if policy is None else NameSpace.AXIS
    target = _reference(cursor, references, space)
    guard = read_guard(cursor, references) if cursor.skip("if") else ()
    return NodeLine(
        name=name,
        number=cursor.number,
        index=index,
        indent=indent,
        policy=policy,
        target=target,
        guard=guard,
    )


def _policy(cursor: Cursor) -> Policy | None:
    """The policy, None where the word is the name of an invocation node."""
    return None if cursor.following == ":" else _POLICIES.get(cursor.token)


def read_guard(cursor: Cursor, references: References) -> tuple[GuardTerm, ...]:
    """``first(axis) and last(axis)``, behind the word if."""
    terms = [_guard_term(cursor, references)]
    while cursor.skip("and"):
        terms.append(_guard_term(cursor, references))
    if cursor.token == "or":
        raise cursor.error("`and`, or the end of the line")
    return tuple(terms)


def _guard_term(cursor: Cursor, references: References) -> GuardTerm:
    try:
        kind = GuardKind(cursor.token)
    except ValueError:
        raise cursor.error("first(axis) or last(axis)", rule=GUARD_TERM) from None
    cursor.step()
    cursor.expect("(")
    axis = _reference(cursor, references, NameSpace.AXIS)
    cursor.expect(")")
    return GuardTerm(kind=kind, axis=axis)


def _names(cursor: Cursor, references: References, space: NameSpace) -> tuple[str, ...]:
    cursor.expect("[")
    if cursor.skip("]"):
        return ()
    names = [_reference(cursor, references, space)]
    while cursor.skip(","):
        names.append(_reference(cursor, references, space))
    cursor.expect("]")
    return tuple(names)


def _reference(cursor: Cursor, references: References, space: NameSpace) -> str:
    index = cursor.index
    name = cursor.name(_WANTED[space])
    if (space, name) not in references:
        references[space, name] = cursor.place_of(index)
    return name


def _data_type(cursor: Cursor) -> DataType:
    try:
        data_type = DataType(cursor.token)
    except ValueError:
        known = ", ".join(each.value for each in DataType)
        raise cursor.error(f"a data type ({known})", rule=DATA_TYPE) from None
    cursor.step()
    return data_type


def _operation(cursor: Cursor) -> Operation:
    try:
        operation = Operation(cursor.token)
    except ValueError:
        known = ", ".join(each.value for each in Operation)
        raise cursor.error(f"an operation ({known})", rule=OPERATION) from None
    cursor.step()
    return operation
