"""What conditions look at: the latencies, load and endings of a pool or a node, window by window."""
