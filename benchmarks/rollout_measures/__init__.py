"""Rollouts measured: pools with a canary, and rivals of the judge."""
