"""A large fleet on several replicas over one PostgreSQL."""
