"""The tuner's search and finish on surfaces whose truth is known."""
