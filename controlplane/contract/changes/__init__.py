"""What is told of a change of configuration before it, during it and to others: wire models."""
