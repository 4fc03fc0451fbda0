"""A detector measured before it becomes the product's: scores by rank, wandering fitted, every onset scanned."""
