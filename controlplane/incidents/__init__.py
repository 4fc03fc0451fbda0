"""Incidents: one for the alerts of one cause, from the first onset to the post-mortem."""
