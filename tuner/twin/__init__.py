"""The twin: the engine's own scheduler over a modelled clock; what a change would do, as percentiles with intervals."""
