"""Careful tuning in production: which value is one step away, which step comes next, and the rows of both."""
