"""Kinds of rules on the whole fleet: by what nodes, their agents and rollouts say now, with or without telemetry."""
