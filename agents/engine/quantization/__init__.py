"""The linear layers, by weight format.

`linear.py` chooses; `activations.py` and `tiles.py` hold the arithmetic that native kernels and torch agree on.
"""
