"""What a person may write: rules with their checks and defaults, and silences."""
