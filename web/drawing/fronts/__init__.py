"""Several objectives drawn against each other."""
