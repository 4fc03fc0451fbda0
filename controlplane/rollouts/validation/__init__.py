"""A configuration held against each node before anything moves: by what nodes say of themselves."""
