"""The page of advice."""
