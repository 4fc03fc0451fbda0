"""What runs beside a serving engine: the agent process, and the embedded torch engine itself."""
