"""Native kernels for the CPU, built on first use; everything they compute has a torch twin that is the fallback."""
