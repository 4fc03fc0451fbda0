"""What a diagnosis is made of: what surrounds a slowdown, its likely causes, and one sentence that says so."""
