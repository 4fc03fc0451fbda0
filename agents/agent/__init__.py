"""The agent process: settings, what it wires together, and how telemetry is collected from a backend."""
