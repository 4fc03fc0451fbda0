"""What is usual of a pool's latencies, and whether they have grown: what a regression rule judges by. Pure."""
