"""Settings: who may do what here, where alerts go, how long what is kept, and how the service is."""
