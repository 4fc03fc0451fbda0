"""A study as a command line asks for it, and follows it."""
