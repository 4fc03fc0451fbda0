"""Time and numbers: spans, levels, columns, sketches, and what else every room counts with."""
