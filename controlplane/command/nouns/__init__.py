"""Nouns of the command line: what the service keeps or measures, each with list, show and what can be done."""
