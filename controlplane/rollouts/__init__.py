"""Rollouts: canary, judge, promote or roll back."""
