"""The typed client everybody uses: dashboard, tuner, agents, command line, demo, and automated config rollout.

Guarantee: an error answer of the service is raised as the matching class of `controlplane.contract.errors`, with its
message and detail; a connection problem is raised as httpx's own error. Thread-safe, as httpx.Client is.
"""

from controlplane.client.raised_errors import raise_for_error
from controlplane.client.resources import ResourceCalls
from controlplane.client.telemetry import TelemetryCalls

__all__ = ["Client", "raise_for_error"]


class Client(ResourceCalls, TelemetryCalls):
    """One service at `base_url`, with one bearer token. Use as a context manager, or call `close`."""
