"""Values that hold native code or memory of this process, and so cannot leave it."""

from __future__ import annotations

from typing import Any, Never, Self


class ProcessBound:
    """Copies of an immutable value are the value itself; pickling it is refused with the way out.

    What travels between processes is text: programs, expressions, and the files `save` writes.
    Such values are equal and hash by identity, as functions do (their classes say ``eq=False``):
    native code and memory have no equality that would tell more.
    """

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce_ex__(self, protocol: Any) -> Never:
        raise TypeError(
            f"a teir {type(self).__name__} holds native code of this process and is not pickled: "
            "plan or compile in the other process (its kernels are on disk already), or send the "
            "program, a teir.Program"
        )
