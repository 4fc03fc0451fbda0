"""Whether a search whose twin is calibrated by its first trials chooses better: on surfaces that were measured."""
