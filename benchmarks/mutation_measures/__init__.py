"""What mutation puts into a module."""
