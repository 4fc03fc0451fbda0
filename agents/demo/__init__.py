"""The story that `trimtab demo` and `make run` tell, on a real engine with real traffic."""
