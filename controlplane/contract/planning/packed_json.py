"""A JSON document as it is kept and sent in little room: deflated (RFC 1950), as base64. Pure."""

import base64
import json
import zlib
from typing import Any


def packed_json(document: Any) -> str:
    return base64.b64encode(zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 9)).decode()


def unpacked_json(text: str, largest_bytes: int) -> Any:
    """Raises ValueError for what was not packed so, or is larger when it is unpacked."""
    unpacking = zlib.decompressobj()
    try:
        document = unpacking.decompress(base64.b64decode(text, validate=True), largest_bytes)
        if not unpacking.eof:
            raise ValueError(f"ends too early, or is larger than {largest_bytes:,} bytes when it is unpacked")
        return json.loads(document)
    except (zlib.error, RecursionError) as error:
        raise ValueError(str(error)) from error
