"""What goes wrong on purpose, at length: bytes that nobody should send, kills, a week, TLS. `benchmarks/chaos.py`."""
