"""The indices a cotengra tree slices: loops around all of its steps, an index at a time.

tree.slice(target_slices=4) of ij,jk,kl->il
    -> sequential loop over k { the steps for one k }, results of slices added
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from teir.errors import TeirError, at_argument
from teir.search.path import OPTIMIZE


def slices_of_tree(
    optimize: object, terms: Sequence[Sequence[str]], sliceable: Sequence[str]
) -> Mapping[str, int]:
    """The indices that the tree ``optimize`` slices, each in blocks of one.

    ``terms``: the indices of every operand, which the tree may call by other names. Raises
    TeirError (TEIR612) for a tree of other operands, and for slices that cannot be: of an index not
    in ``sliceable``, or of one value alone.
    """
    sliced = getattr(optimize, "sliced_inds", None)
    if not sliced or not hasattr(optimize, "get_path"):
        return {}
    theirs = tuple(map(tuple, getattr(optimize, "inputs", ())))
    if [len(term) for term in theirs] != [len(term) for term in terms]:
        raise _refusal("a tree of these operands", f"one of operands {theirs}")
    ours = {
        name: index
        for term, own in zip(theirs, terms, strict=True)
        for name, index in zip(term, own, strict=True)
    }
    for name, one in sliced.items():
        if getattr(one, "project", None) is not None:
            raise _refusal("slices over all values of an index", f"one value of {name!r}")
        if ours[name] not in sliceable:
            expected = "slices of indices of the output: narrow sums are not cut"
            raise _refusal(expected, f"one of the summed index {name!r}")
    return {ours[name]: 1 for name in sliced}


def _refusal(expected: str, found: str) -> TeirError:
    return TeirError((at_argument(OPTIMIZE, "optimize", expected, found),))
