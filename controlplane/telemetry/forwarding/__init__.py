"""Telemetry pushed onwards: to OpenTelemetry collectors and Prometheus, late points included."""
