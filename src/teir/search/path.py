"""The order in which the operands of an einsum meet."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import inf
from numbers import Integral
from typing import Any

import numpy as np

from teir.errors import Rule, TeirError, at_argument
from teir.search.path_of_three import path_of_three
from teir.search.tree import Path

OPTIMIZE = Rule(
    code="TEIR612",
    sentence="optimize is True, False, the name of an opt_einsum path finder, perhaps with the "
    "elements an intermediate may have, a path finder, a cotengra tree, or a path: tuples of "
    "operand positions that end in one operand.",
    source="opt_einsum, contract_path",
)


def find_path(
    inputs: Sequence[Sequence[str]],
    output: Sequence[str],
    extents: Mapping[str, int],
    optimize: object,
) -> Path:
    """The contraction path for these terms. Raises TeirError for a path that is none."""
    count = len(inputs)
    if count == 1:
        require_path_choice(optimize, count)
        return ((0,),)
    if count == 2 and (optimize is True or optimize is False or isinstance(optimize, str)):
        require_path_choice(optimize, count)
        return ((0, 1),)
    if optimize is False:
        return ((0, 1), *((0, count - 2 - done) for done in range(count - 2)))
    if count == 3 and (optimize is True or (type(optimize) is str and optimize == "auto")):
        return path_of_three(inputs, output, extents)
    if optimize is True or isinstance(optimize, str):
        finder = _finder("auto" if optimize is True else str(optimize))
        return _called(finder, inputs, output, extents)
    if (limited := _limited_name(optimize)) is not None:
        name, elements = limited
        return _called(_finder(name), inputs, output, extents, elements)
    if hasattr(optimize, "get_path"):
        return _checked(optimize.get_path(), count)
    if callable(optimize):
        return _called(optimize, inputs, output, extents)
    return _checked(optimize, count)


def path_value(optimize: Any) -> Hashable | None:
    """What a call with this path, or this tree as it is now, is told from others by; None for path
    finders, which may find another one the next time, and for what may be refused."""
    if not hasattr(optimize, "get_path"):
        return _steps_value(optimize)
    try:
        steps = _steps_value(optimize.get_path())
        sliced = getattr(optimize, "sliced_inds", None) or {}
        if any(getattr(one, "project", None) is not None for one in sliced.values()):
            return None
        terms = tuple(map(tuple, getattr(optimize, "inputs", ())))
        # In a tuple of its own: no path has such a step.
        value = ((steps, terms, tuple(sliced)),)
        hash(value)
    except Exception:  # the tree's own code, which the call itself comes to, if it does
        return None
    return None if steps is None else value


def _steps_value(path: Any) -> Hashable | None:
    if type(path) not in (list, tuple):
        return None
    steps = tuple(tuple(step) if type(step) in (list, tuple) else step for step in path)
    places = (place for step in steps for place in (step if type(step) is tuple else (step,)))
    return steps if all(type(place) in (int, str) for place in places) else None


def require_path_choice(optimize: object, count: int) -> None:
    """Refuse what `find_path` would of ``count`` operands, where no path is needed.

    Path finders are not called. Raises TeirError (TEIR612).
    """
    if isinstance(optimize, bool) or hasattr(optimize, "get_path") or callable(optimize):
        return
    if isinstance(optimize, str):
        if optimize != "auto":
            _finder(optimize)
    elif (limited := _limited_name(optimize)) is not None:
        _finder(limited[0])
    else:
        _checked(optimize, count)


def _limited_name(optimize: object) -> tuple[str, int] | None:
    """NumPy's ``("greedy", 10_000)``: a finder and the elements an intermediate may have.

    Raises TeirError where the second is no such number.
    """
    match optimize:
        case (str() as name, int() | float() | np.number() as elements) if 1 <= elements < inf:
            return name, int(elements)
        case (str(), int() | float() | np.number()):
            raise _refusal(f"{optimize!r}, whose second is not at least 1")
        case _:
            return None


def _finder(name: str) -> Callable[..., Any]:
    from opt_einsum import paths

    try:
        return paths.get_path_fn(name)  # type: ignore[no-any-return]
    except KeyError:
        raise _refusal(repr(name)) from None


def _called(
    finder: Callable[..., Any],
    inputs: Sequence[Sequence[str]],
    output: Sequence[str],
    extents: Mapping[str, int],
    *elements: int,
) -> Path:
    sets = [frozenset(term) for term in inputs]
    path = finder(sets, frozenset(output), dict(extents), *elements)
    return _checked(path, len(inputs))


def _checked(path: object, count: int) -> Path:
    if isinstance(path, np.ndarray):
        path = path.tolist()
    if not isinstance(path, Sequence) or isinstance(path, str | bytes):
        raise _refusal(repr(path))
    steps = [step for step in path if not (isinstance(step, str) and step == "einsum_path")]
    left = count
    for step in steps:
        if not _is_step(step, left):
            raise _refusal(f"{step!r} where {left} operands are left")
        left -= len(step) - 1
    if left != 1:
        raise _refusal(f"a path that leaves {left} operands")
    return tuple(tuple(int(place) for place in step) for step in steps)


def _is_step(step: object, left: int) -> bool:
    if not isinstance(step, Sequence | np.ndarray) or not 1 <= len(step) <= left:
        return False
    places = [place for place in step if isinstance(place, Integral) and 0 <= int(place) < left]
    return len(set(places)) == len(step)


def _refusal(found: str) -> TeirError:
    return TeirError((at_argument(OPTIMIZE, "optimize", "a path finder or a path", found),))
