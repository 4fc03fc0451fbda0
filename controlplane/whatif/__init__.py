"""What a change would do to a pool: its telemetry gathered, and handed to the twin's process."""
