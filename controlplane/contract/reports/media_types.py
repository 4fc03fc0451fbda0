"""Media types that others have named."""

PROTOBUF = "application/x-protobuf"
"""OTLP's, OpAMP's and that of Prometheus' remote write."""
