"""Tuning studies: asked for here, claimed by a tuner worker over HTTP."""
