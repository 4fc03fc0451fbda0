"""Loading telemetry from files: reading them into batches, and sending the batches."""
