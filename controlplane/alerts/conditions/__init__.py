"""What rules judge: one file for each kind of condition that has outgrown a function."""
