"""What would happen if: questions about a pool's future, and forecasts."""
