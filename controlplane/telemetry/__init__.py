"""Telemetry: the OTLP receiver, sketches, the frame store, and quantile queries."""
