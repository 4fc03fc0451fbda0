"""Thousands of agents on one service: from a decision to its being in force, idle, and after a kill."""
