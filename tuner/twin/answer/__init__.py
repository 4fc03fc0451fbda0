"""What a forecast says: how far off it may be, how many requests are good, what the change itself costs, in words."""
