"""Rollouts taken through every transition of their machine with a fault at it, in one process on an injected clock."""
