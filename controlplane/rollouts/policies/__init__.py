"""Who may change a pool, how much at once and when; what is frozen and what is pinned."""
