"""The parts of `benchmarks/telemetry.py`."""
