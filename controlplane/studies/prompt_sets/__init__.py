"""Prompts that the service keeps under a name, for studies to replay."""
