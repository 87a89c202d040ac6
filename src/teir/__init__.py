"""One compiler stack for dense and sparse tensor operations."""
