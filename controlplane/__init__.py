"""The central service: contract, client, and the domains behind the API."""
