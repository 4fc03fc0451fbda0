"""What a study asks of its pool's twin: where to begin, and what its runs are held against."""
