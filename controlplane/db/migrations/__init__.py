"""Schema steps: Alembic's environment and template. `controlplane.db.migrate` runs them."""
