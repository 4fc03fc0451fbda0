"""The HTTP surface: the routers of every domain, and the one handler that writes errors."""
