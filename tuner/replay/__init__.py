"""A workload sent to a real engine, open loop, and what its clients saw."""
