"""Telemetry on its way out: onwards to OpenTelemetry collectors and Prometheus, and into files.

Everything here reads through `controlplane.telemetry.reader.TelemetryReader` alone, so that it works on any store.
"""
