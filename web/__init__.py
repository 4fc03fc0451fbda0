"""The dashboard: Jinja2 pages over the typed client."""
