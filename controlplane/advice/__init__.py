"""Advice on a pool: what binds it, what it carries, and what each technique could touch. `pool_reading` asks telemetry;
all else is pure."""
