"""The telemetry path while its processes are killed."""
