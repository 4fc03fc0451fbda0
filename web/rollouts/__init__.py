"""Rollouts: the list, one rollout's page, and what its evidence says, in rows, curves and closing intervals."""
