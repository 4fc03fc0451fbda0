"""What a step costs: its terms, fitted to telemetry, what passes between steps, and how the pace wanders."""
