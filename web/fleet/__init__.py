"""The fleet: every node at once, one node against its pool, and the configurations that they run."""
