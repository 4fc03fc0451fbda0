"""What commonly goes wrong with a serving fleet, as data: the catalogue, how it is read from telemetry, and judged."""
