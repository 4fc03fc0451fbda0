"""Alerting as code: files that are planned, applied and exported."""
