"""What one request asks and what it has so far: parameters, tokens, clocks."""
