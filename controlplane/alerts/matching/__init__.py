"""Which alerts are meant: labels with their values, and patterns that whole values must match."""
