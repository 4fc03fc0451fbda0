"""The OpenTelemetry wire: protobuf and JSON, points, labels and bounds."""
