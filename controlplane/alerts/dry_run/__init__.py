"""A rule tried over what has been, by the judges of what is."""
