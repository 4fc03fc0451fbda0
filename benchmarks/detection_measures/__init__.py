"""Worlds, methods and measures of `benchmarks/detection.py`."""
