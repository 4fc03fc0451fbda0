"""The fleet: nodes, what they should run, what they truly run, and the OpAMP server that connects the two."""

from controlplane.fleet.opamp.hub import FleetHub

__all__ = ["FleetHub"]
