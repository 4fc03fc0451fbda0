"""Parts of benchmarks/host_faults.py."""
