"""The twin measured: against the real embedded engine on what it was not fitted to, and how fast it is."""
