"""Plans in memory, by what was asked for: as many as there is room for, the oldest go first."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from teir.pipeline.plan import Plan
from teir.runtime.turns import Turns

MOST_PLANS = 4096
MOST_BYTES = 1 << 30
"""Scratch that kept plans may hold, all together; the latest plan is kept whatever it needs."""


@dataclass(slots=True)
class PlanCache:
    """Plans by key. Plans may share an executable; its scratch is counted once.

    ``plans`` and ``latest`` are read without asking, which is all that a call seen before does.
    Nobody waits for a change: signal handlers and finalizers plan too, in the middle of one.
    """

    plans: dict[Hashable, Plan] = field(default_factory=dict)
    latest: dict[Hashable, Plan] = field(default_factory=dict)
    """By expression, with the keywords of a call that had some, a kept plan whose native call is
    tried before a key is formed."""
    _keys_of: dict[int, int] = field(default_factory=dict)
    _bytes: int = 0
    _turns: Turns = field(default_factory=Turns)

    def keep(self, key: Hashable, plan: Plan) -> None:
        """Keep a plan, and let the oldest go until the others fit."""
        self._turns.make(partial(self._change, self._keep, key, plan))

    def try_first(self, signature: tuple[Any, ...], plan: Plan) -> None:
        """Try a plan kept by ``signature`` first in calls with its expression, the first entry.

        Calls of two shapes by turns come here every time, so no turn is taken: a plan is forgotten
        from ``plans`` before it is from ``latest``, which is looked at the other way round here.
        """
        self.latest[signature[0]] = plan
        if self.plans.get(signature) is not plan:
            self._try_others_first(signature, plan)

    def clear(self) -> None:
        """Forget every plan."""
        self._turns.make(partial(self._change, self._empty))

    def before_fork(self) -> None:
        """Nothing to wait for."""

    def after_fork_in_parent(self) -> None:
        """Nothing has changed."""

    def after_fork_in_child(self) -> None:
        if not self._turns.is_whole_after_fork():
            self._empty()

    def _change(self, change: Callable[..., None], *arguments: Any) -> None:
        try:
            change(*arguments)
        except BaseException:  # a signal handler may raise anything, in the middle of it
            self._empty()
            raise

    def _keep(self, key: Hashable, plan: Plan) -> None:
        if key in self.plans:
            self._forget(key)
        self.plans[key] = plan
        self._count(plan, 1)
        while len(self.plans) > MOST_PLANS or self._bytes > MOST_BYTES:
            oldest = next(iter(self.plans))
            if oldest == key:
                return
            self._forget(oldest)

    def _try_others_first(self, key: tuple[Any, ...], plan: Plan) -> None:
        if self.latest.get(key[0]) is plan:
            self.latest.pop(key[0], None)

    def _empty(self) -> None:
        self.plans.clear()
        self.latest.clear()
        self._keys_of.clear()
        self._bytes = 0

    def _forget(self, key: Hashable) -> None:
        plan = self.plans.pop(key, None)
        if plan is None:
            return
        self._count(plan, -1)
        if isinstance(key, tuple):
            self._try_others_first(key, plan)

    def _count(self, plan: Plan, change: int) -> None:
        """One key more or one fewer; the first and the last one count the scratch."""
        owner = id(plan if plan.executable is None else plan.executable)
        before = self._keys_of.get(owner, 0)
        after = before + change
        if after:
            self._keys_of[owner] = after
        else:
            self._keys_of.pop(owner, None)
        if not before or not after:
            self._bytes += change * plan.memory_bytes
