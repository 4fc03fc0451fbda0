"""The operations besides the linear layers, a seam: in torch, and in C++ (`kernels/`, built on first use)."""
