"""What the machine under an engine does: pressure, CPU time, control group, memory, GPU, read from the kernel."""
