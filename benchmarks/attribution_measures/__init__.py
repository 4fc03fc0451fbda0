"""Injected faults and what is named of them: a simulated pool, its faults, and the service that is told."""
