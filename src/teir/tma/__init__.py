"""Tile loads: the language of tensor-memory-accelerator schedules, its checker and an emulator.

A schedule of splits and merges says how a tile of a tensor is copied between global and shared
memory; `check` infers the tensor map it means and every rule it breaks, and the emulator runs the
copy on byte buffers without a GPU (documentation, tile loads).
"""

from __future__ import annotations
