"""What on-call works with: incidents, and who looks after what."""
