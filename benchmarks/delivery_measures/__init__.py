"""Receivers that misbehave, a service that is killed, and what came of it."""
