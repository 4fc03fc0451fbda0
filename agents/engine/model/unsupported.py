"""The error for a model that this engine cannot compute exactly."""

from controlplane.contract.errors import BadRequest


def unsupported(field: str, value: object, wanted: str) -> BadRequest:
    """Names the field of config.json, its value and what this engine wants instead."""
    return BadRequest(f"config.json: {field} = {value!r} is not supported; this engine wants {wanted}", field=field)
