"""Steady load on running engines, as a command."""
