"""Verdicts for others: of our rollouts, and of two arms that Argo Rollouts, Flagger or a pipeline runs."""
