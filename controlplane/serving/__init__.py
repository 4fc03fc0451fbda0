"""What every HTTP server of Tailwright is made of: limits on what a client may hold, and TLS."""
