"""Why an engine was not reached, in words that name the setting where it was not believed."""

from controlplane.client.named_proxy import NOT_BELIEVED


def reason(error: Exception) -> str:
    """One line."""
    text = str(error) or type(error).__name__
    if NOT_BELIEVED not in text:
        return text
    return f"{text}; engine_ca_file (in a node file server_ca_file) says whose certificates of engines count"
