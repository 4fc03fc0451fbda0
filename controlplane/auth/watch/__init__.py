"""The log of who came and who was refused."""
