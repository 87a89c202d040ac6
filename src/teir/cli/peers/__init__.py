"""This package beside other libraries: the same contraction, checked, interleaved."""
