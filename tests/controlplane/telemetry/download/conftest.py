"""The reader of made series that the tests of forwarding use."""

from tests.controlplane.telemetry.forwarding.conftest import make_reader, make_sketch, reader

__all__ = ["make_reader", "make_sketch", "reader"]
