"""The stored form: blocks in frames, and the stores that hold them (SQL, ClickHouse)."""
