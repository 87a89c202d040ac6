"""Small mistakes in Python source: the mutants of a file, one per place and kind of mistake."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
}


def mutant_count(source: str) -> int:
    """How many mutants ``source`` has."""
    return sum(1 for _ in _places(ast.parse(source)))


def mutated(source: str, number: int) -> str:
    """The source of mutant ``number``."""
    tree = ast.parse(source)
    for place, node in enumerate(_places(tree)):
        if place == number:
            _change(node)
            return ast.unparse(tree)
    raise IndexError(f"mutant {number} of {place + 1}")


def _places(tree: ast.Module) -> Iterator[ast.AST]:
    """What may be changed: inside functions, nothing of what is only said in findings."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for statement in function.body:
            for node in ast.walk(statement):
                if _is_changeable(node):
                    yield node


def _is_changeable(node: ast.AST) -> bool:
    match node:
        case ast.Compare(ops=[operator]):
            return type(operator) in _COMPARED
        case ast.BinOp(op=operator):
            return type(operator) in _COMPUTED and not _is_text(node)
        case ast.BoolOp() | ast.UnaryOp(op=ast.Not()) | ast.Continue():
            return True
        case ast.Return(value=ast.Constant(value=bool())):
            return True
        case _:
            return False


def _is_text(node: ast.AST) -> bool:
    return any(
        isinstance(part, ast.JoinedStr)
        or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in ast.walk(node)
    )


def _change(node: ast.AST) -> None:
    match node:
        case ast.Compare(ops=[operator]):
            node.ops = [_COMPARED[type(operator)]()]
        case ast.BinOp(op=operator):
            node.op = _COMPUTED[type(operator)]()
        case ast.BoolOp(op=operator):
            node.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
        case ast.UnaryOp():
            node.op = ast.UAdd()
        case ast.Return(value=ast.Constant(value=value)):
            node.value = ast.Constant(not value)
        case ast.Continue():
            node.__class__ = ast.Pass  # type: ignore[assignment]
