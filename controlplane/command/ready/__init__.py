"""What `tailwright up` says when it is ready: where it is, how a browser signs in, and what to do next."""
