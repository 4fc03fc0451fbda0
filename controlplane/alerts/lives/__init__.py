"""The life of an alert: the state machine, its bookkeeping, what is told of it while it is open."""
