"""The cell from which register blocks learn what to ask for, and what they do with it.

    word    0      1        2       3       4          5       6  7
            place  run end  m left  n left  run bytes  m step  m  from the last run of m to the next
    word    8
            the cell asked from when nothing of this one is left, or this one

A region is n x m runs of adjacent bytes. Asked for in a row, lines beyond those that can be on
their way are forgotten: on Zen 5 of 56 that were asked for between two blocks few came, of as many
asked for inside the blocks, one every eight steps, all did, at no cost. So every pass through the
loop of a block asks for one line and moves the place on.
"""

from __future__ import annotations

from teir.backends.llvm.emit_text import Cache, FunctionText, prefetch
from teir.target import LINE_BYTES

BEGIN_ASKING_ARGUMENTS = ("run_bytes", "m", "m_step", "n", "n_step")
_PLACE, _RUN_END, _M_LEFT, _N_LEFT, _RUN_BYTES, _M_STEP, _M, _TO_N, _FOLLOWING = range(9)
_WORD_BYTES = 8


def emit_begin_asking_body() -> FunctionText:
    """The body of the function for operands %A, %B, %C and the arguments of `BeginAsking`."""
    text = FunctionText()
    text.label("entry")
    text.write(f"""
        %begin = ptrtoint ptr %A to i64
        %line = and i64 %begin, {-LINE_BYTES}
        %end = add i64 %begin, %run_bytes
        %back = sub i64 %m, 1
        %m_all = mul i64 %back, %m_step
        %to_n = sub i64 %n_step, %m_all
        %following = ptrtoint ptr %C to i64
    """)
    words = ("%line", "%end", "%m", "%n", "%run_bytes", "%m_step", "%m", "%to_n", "%following")
    for number, word in enumerate(words):
        text.effect(f"store i64 {word}, ptr {_word(text, '%B', number)}, align 8")
    text.effect("ret void")
    return text


def ask_for_lines(text: FunctionText, first: str, lines: int, after: str) -> None:
    """So many lines of the region of the cell ``first``, or of those that follow it where nothing
    of it is left; begins in an open block and ends in the block %``after``."""
    cell, follower, following, left, less = (text.fresh() for _ in range(5))
    is_more = lines > 1
    text.effect("br label %ask_begin")
    text.label("ask_begin")
    text.effect("br label %ask_whether")
    text.label("ask_whether")
    once_more = f", [ {cell}, %ask_line ]" if is_more else ""
    text.define(cell, f"phi ptr [ {first}, %ask_begin ], [ {follower}, %ask_over ]{once_more}")
    if is_more:
        text.define(
            left,
            f"phi i64 [ {lines}, %ask_begin ], [ {left}, %ask_over ], [ {less}, %ask_line ]",
        )
    place, end = _read(text, cell, _PLACE), _read(text, cell, _RUN_END)
    is_inside = text.value(f"icmp ult i64 {place}, {end}")
    text.effect(f"br i1 {is_inside}, label %ask_line, label %ask_run")
    _move_to_next_run(text, cell, end, following)
    text.label("ask_over")
    address = _read(text, cell, _FOLLOWING)
    text.define(follower, f"inttoptr i64 {address} to ptr")
    is_last = text.value(f"icmp eq ptr {follower}, {cell}")
    text.effect(f"br i1 {is_last}, label %{after}, label %ask_whether")
    text.label("ask_line")
    line = text.value(f"phi i64 [ {place}, %ask_whether ], [ {following}, %next_run ]")
    prefetch(text, text.value(f"inttoptr i64 {line} to ptr"), Cache.FIRST)
    _write(text, cell, _PLACE, text.value(f"add i64 {line}, {LINE_BYTES}"))
    if not is_more:
        text.effect(f"br label %{after}")
        return
    text.define(less, f"sub i64 {left}, 1")
    is_done = text.value(f"icmp eq i64 {less}, 0")
    text.effect(f"br i1 {is_done}, label %{after}, label %ask_whether")


def _move_to_next_run(text: FunctionText, cell: str, end: str, following: str) -> None:
    """The block %ask_run: on in %ask_line with the line ``following``, or in %ask_over."""
    text.label("ask_run")
    m_left, n_left = _read(text, cell, _M_LEFT), _read(text, cell, _N_LEFT)
    is_last_of_m = text.value(f"icmp sle i64 {m_left}, 1")
    n_taken = text.value(f"zext i1 {is_last_of_m} to i64")
    n_after = text.value(f"sub i64 {n_left}, {n_taken}")
    is_left = text.value(f"icmp sgt i64 {n_after}, 0")
    text.effect(f"br i1 {is_left}, label %next_run, label %ask_over")
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
