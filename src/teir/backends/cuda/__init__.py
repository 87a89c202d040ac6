"""The backend for Hopper GPUs: programs as CUDA C++, compiled without a GPU, launched on one.

Every root of a program becomes a kernel, or several roots become one. Decisions (kernel, tile,
stages) stand in the program's metadata; the source is our own, header-free, and compiled to a
cubin by NVRTC or nvcc (documentation, GPU backend).
"""

from __future__ import annotations
