"""Wiring: one service out of its domains, its background ticks, its start and its end."""
