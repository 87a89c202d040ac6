"""The cell from which register blocks learn what to ask for, and what they do with it.

    word    0      1        2       3       4          5       6  7
            place  run end  m left  n left  run bytes  m step  m  from the last run of m to the next

A region is n x m runs of adjacent bytes. Asked for in a row, lines beyond those that can be on
their way are forgotten: on Zen 5 of 56 that were asked for between two blocks few came, of as many
asked for inside the blocks, one every eight steps, all did, at no cost. So every pass through the
loop of a block asks for one line and moves the place on.
"""

from __future__ import annotations

from teir.backends.llvm.emit_text import Cache, FunctionText, prefetch
from teir.target import LINE_BYTES

BEGIN_ASKING_ARGUMENTS = ("run_bytes", "m", "m_step", "n", "n_step")
_PLACE, _RUN_END, _M_LEFT, _N_LEFT, _RUN_BYTES, _M_STEP, _M, _TO_N = range(8)
_WORD_BYTES = 8


def emit_begin_asking_body() -> FunctionText:
    """The body of the function for operands %A, %B and the arguments of `BeginAsking`."""
    text = FunctionText()
    text.label("entry")
    text.write(f"""
        %begin = ptrtoint ptr %A to i64
        %line = and i64 %begin, {-LINE_BYTES}
        %end = add i64 %begin, %run_bytes
        %back = sub i64 %m, 1
        %m_all = mul i64 %back, %m_step
        %to_n = sub i64 %n_step, %m_all
    """)
    words = ("%line", "%end", "%m", "%n", "%run_bytes", "%m_step", "%m", "%to_n")
    for number, word in enumerate(words):
        text.effect(f"store i64 {word}, ptr {_word(text, '%B', number)}, align 8")
    text.effect("ret void")
    return text


def ask_for_a_line(text: FunctionText, cell: str, after: str) -> None:
    """One line of the region; begins in an open block and ends in the block %``after``."""
    place, end = _read(text, cell, _PLACE), _read(text, cell, _RUN_END)
    following = text.fresh()
    is_inside = text.value(f"icmp ult i64 {place}, {end}")
    text.effect("br label %ask_whether")
    text.label("ask_whether")
    text.effect(f"br i1 {is_inside}, label %ask_line, label %ask_run")
    _move_to_next_run(text, cell, end, following, after)
    text.label("ask_line")
    line = text.value(f"phi i64 [ {place}, %ask_whether ], [ {following}, %next_run ]")
    prefetch(text, text.value(f"inttoptr i64 {line} to ptr"), Cache.FIRST)
    _write(text, cell, _PLACE, text.value(f"add i64 {line}, {LINE_BYTES}"))
    text.effect(f"br label %{after}")


def _move_to_next_run(text: FunctionText, cell: str, end: str, following: str, after: str) -> None:
    """The block %ask_run: on in %ask_line with the line ``following``, or in %``after``."""
    text.label("ask_run")
    m_left, n_left = _read(text, cell, _M_LEFT), _read(text, cell, _N_LEFT)
    is_last_of_m = text.value(f"icmp sle i64 {m_left}, 1")
    n_taken = text.value(f"zext i1 {is_last_of_m} to i64")
    n_after = text.value(f"sub i64 {n_left}, {n_taken}")
    is_left = text.value(f"icmp sgt i64 {n_after}, 0")
    text.effect(f"br i1 {is_left}, label %next_run, label %{after}")
    text.label("next_run")
    m_less = text.value(f"sub i64 {m_left}, 1")
    m_after = text.value(f"select i1 {is_last_of_m}, i64 {_read(text, cell, _M)}, i64 {m_less}")
    to_n, m_step = _read(text, cell, _TO_N), _read(text, cell, _M_STEP)
    step = text.value(f"select i1 {is_last_of_m}, i64 {to_n}, i64 {m_step}")
    next_end = text.value(f"add i64 {end}, {step}")
    begin = text.value(f"sub i64 {next_end}, {_read(text, cell, _RUN_BYTES)}")
    text.define(following, f"and i64 {begin}, {-LINE_BYTES}")
    for word, value in ((_RUN_END, next_end), (_M_LEFT, m_after), (_N_LEFT, n_after)):
        _write(text, cell, word, value)
    text.effect("br label %ask_line")


def _word(text: FunctionText, cell: str, number: int) -> str:
    return text.value(f"getelementptr i8, ptr {cell}, i64 {number * _WORD_BYTES}")


def _read(text: FunctionText, cell: str, number: int) -> str:
    return text.value(f"load volatile i64, ptr {_word(text, cell, number)}, align 8")


def _write(text: FunctionText, cell: str, number: int, value: str) -> None:
    text.effect(f"store volatile i64 {value}, ptr {_word(text, cell, number)}, align 8")
