"""A number that changes when bytes in memory do: compiled, as fast as memory is read.

Thirty-two chains of 64-bit words, each step one-to-one in the word it takes in: a change inside one
word always shows, any other with a probability of 1 - 2^-64. No protection against someone who
chooses bytes to collide.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from teir.backends.llvm.cached_code import cached_function
from teir.runtime.runtime import current
from teir.target import Isa

Fingerprint = Callable[[int, int, int], int]
"""``fingerprint(address, size, seed)`` of ``size`` bytes."""

_SYMBOL = "teir_fingerprint"
_LANES = 8
_CHAINS = 4
_BLOCK_BYTES = 8 * _LANES * _CHAINS
_FACTOR = -7046029288634856825
"""2^64 over the golden ratio, made odd."""
_VECTOR = f"<{_LANES} x i64>"


def fingerprint(isa: Isa) -> Fingerprint:
    """The compiled function; other threads run while it does."""
    return current().once(f"fingerprint {isa.value}", lambda: _bound(isa))


def _bound(isa: Isa) -> Fingerprint:
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    text = fingerprint_function()
    return cached_function("fingerprint", isa, _SYMBOL, text, number, pointer, number, number)


def fingerprint_function() -> str:
    """The function's definition in LLVM IR."""
    starts = ", ".join(f"i64 {_FACTOR * (lane + 1) % 2**63}" for lane in range(_LANES))
    chains = range(_CHAINS)
    heads = "\n".join(
        f"  %h{n} = phi {_VECTOR} [ <{starts}>, %entry ], [ %h{n}.next, %block.body ]"
        for n in chains
    )
    factor = "<" + ", ".join([f"i64 {_FACTOR}"] * _LANES) + ">"
    turn = "<" + ", ".join(["i64 29"] * _LANES) + ">"
    steps = "\n".join(
        f"""  %p{n} = getelementptr i8, ptr %at, i64 {8 * _LANES * n}
  %x{n} = load {_VECTOR}, ptr %p{n}, align 1
  %r{n} = call {_VECTOR} @llvm.fshl.v{_LANES}i64({_VECTOR} %h{n}, {_VECTOR} %h{n}, {_VECTOR} {turn})
  %m{n} = xor {_VECTOR} %r{n}, %x{n}
  %h{n}.next = mul {_VECTOR} %m{n}, {factor}"""
        for n in chains
    )
    return f"""
define i64 @{_SYMBOL}(ptr %from, i64 %size, i64 %seed) nounwind {{
entry:
  %blocks = udiv i64 %size, {_BLOCK_BYTES}
  %whole = mul i64 %blocks, {_BLOCK_BYTES}
  %start = xor i64 %seed, %size
  br label %block
block:
  %i = phi i64 [ 0, %entry ], [ %i.next, %block.body ]
{heads}
  %more = icmp ult i64 %i, %whole
  br i1 %more, label %block.body, label %folded
block.body:
  %at = getelementptr i8, ptr %from, i64 %i
{steps}
  %i.next = add i64 %i, {_BLOCK_BYTES}
  br label %block
folded:
{_folds()}
  br label %word
word:
  %w = phi i64 [ %whole, %folded ], [ %w.next, %word.body ]
  %hw = phi i64 [ %all, %folded ], [ %hw.next, %word.body ]
  %w.next = add i64 %w, 8
  %word.more = icmp ule i64 %w.next, %size
  br i1 %word.more, label %word.body, label %byte
word.body:
  %wp = getelementptr i8, ptr %from, i64 %w
  %wx = load i64, ptr %wp, align 1
{_step("hw", "hw.next", "wx")}
  br label %word
byte:
  %b = phi i64 [ %w, %word ], [ %b.next, %byte.body ]
  %hb = phi i64 [ %hw, %word ], [ %hb.next, %byte.body ]
  %byte.more = icmp ult i64 %b, %size
  br i1 %byte.more, label %byte.body, label %done
byte.body:
  %bp = getelementptr i8, ptr %from, i64 %b
  %bv = load i8, ptr %bp, align 1
  %bx = zext i8 %bv to i64
{_step("hb", "hb.next", "bx")}
  %b.next = add i64 %b, 1
  br label %byte
done:
  ret i64 %hb
}}
declare {_VECTOR} @llvm.fshl.v{_LANES}i64({_VECTOR}, {_VECTOR}, {_VECTOR})
declare i64 @llvm.fshl.i64(i64, i64, i64)
"""


def _folds() -> str:
    """All chains taken into one."""
    lines, before = [], "start"
    for number in range(_CHAINS * _LANES):
        chain, lane = divmod(number, _LANES)
        after = "all" if number == _CHAINS * _LANES - 1 else f"all{number}"
        lines.append(f"  %lane{number} = extractelement {_VECTOR} %h{chain}, i32 {lane}")
        lines.append(_step(before, after, f"lane{number}"))
        before = after
    return "\n".join(lines)


def _step(before: str, after: str, word: str) -> str:
    """One step of a scalar chain."""
    return (
        f"  %{after}.r = call i64 @llvm.fshl.i64(i64 %{before}, i64 %{before}, i64 29)\n"
        f"  %{after}.m = xor i64 %{after}.r, %{word}\n"
        f"  %{after} = mul i64 %{after}.m, {_FACTOR}"
    )
