"""The linear layers, by weight format."""
