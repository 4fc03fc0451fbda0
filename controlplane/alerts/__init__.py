"""Alerts: rules, their evaluation, the diagnosis, and delivery to on-call."""
