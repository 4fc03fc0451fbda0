"""Which tokens each step computes, and the cache blocks they need. No torch here."""
