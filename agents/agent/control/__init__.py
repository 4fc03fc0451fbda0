"""The way down: OpAMP from the control plane, and a configuration applied to the engine."""
