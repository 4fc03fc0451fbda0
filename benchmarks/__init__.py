"""Scripts that measure; the figures they print are explained in docs/benchmarks.md."""
