"""Alerting as code: what files declare, compared with what is there, and made so."""
