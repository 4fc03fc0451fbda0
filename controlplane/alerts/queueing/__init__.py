"""How long a pool makes requests wait, how much it can serve, and whether its traffic has changed. Pure."""
