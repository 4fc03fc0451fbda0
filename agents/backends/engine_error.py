"""Why an engine was not reached, in words that name the setting where it was not believed."""

from controlplane.client.named_proxy import unreached


def reason(error: Exception) -> str:
    """One line."""
    return unreached(error, "engine_ca_file (in a node file server_ca_file) says whose certificates of engines count")
