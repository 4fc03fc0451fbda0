"""The story that `tailwright demo` and `make run` tell, on a real engine with real traffic."""
