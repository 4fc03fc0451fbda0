"""What one report says, as rows."""
