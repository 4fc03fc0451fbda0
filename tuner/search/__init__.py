"""Which configuration to try next: the space, the objective, the model of what is known, and what a trial costs."""
