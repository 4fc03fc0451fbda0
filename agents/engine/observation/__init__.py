"""What the engine tells about itself: clocks, events, metrics."""
