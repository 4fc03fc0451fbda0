"""What `benchmarks/dashboard.py` measures, a module a section."""
