"""What a person may write: default rules, and silences."""
