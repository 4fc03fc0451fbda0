"""Which configuration to try next: the space, the objective, Optuna's sampler, and what a trial costs."""
