"""Telemetry as files: CSV, Parquet and records for GET /export."""
