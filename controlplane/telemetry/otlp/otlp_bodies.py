"""OTLP/HTTP bodies to protobuf messages, and answers back.

Guarantee: whatever the bytes are, the result is a message or an error of the contract that says what is wrong:
`Unsupported` (415), `TooLarge` (413), `BadRequest` (400).
"""

from typing import TypeVar

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from controlplane.contract.errors import BadRequest, TooLarge, Unsupported
from controlplane.contract.reports.media_types import PROTOBUF
from controlplane.telemetry.otlp import otlp_json
from controlplane.telemetry.values.refusal import Refusals

LIMIT_BODY = 8 << 20
"""As sent, of a packed report too."""
LIMIT_PLAIN = 4 << 20
"""Of an OTLP message: gRPC's own default, which OTLP senders keep to. A hostile one of small messages becomes a hundred
times as much in memory."""
LIMIT_ITEMS = 100_000
"""Resources, scopes, metrics, points and spans of one request: each may be no more than two bytes on the wire."""
JSON = "application/json"
KINDS = (PROTOBUF, JSON)

M = TypeVar("M", bound=Message)


def content_type(stated: str, kinds: tuple[str, ...] = KINDS) -> str:
    """One of `kinds`. Raises `Unsupported` for anything else."""
    if stated in kinds:
        return stated
    kind = stated.partition(";")[0].strip().lower()
    if kind not in kinds:
        raise Unsupported(f"Content-Type {stated[:80]!r} is not one of {', '.join(kinds)}", field="Content-Type")
    return kind


def read(plain: bytes, kind: str, message: M, refusals: Refusals) -> M:
    """Fill `message` from a plain body. Single JSON points that do not fit the schema go to `refusals`."""
    if kind == JSON:
        return otlp_json.parse(plain, message, refusals, LIMIT_ITEMS)
    try:
        message.ParseFromString(plain)
    except (DecodeError, ValueError, RecursionError) as error:
        raise BadRequest(f"body: not a protobuf {message.DESCRIPTOR.name}: {error}", field="body") from error
    return message


def check_items(items: int) -> None:
    """Raises `TooLarge` for a request of more than `LIMIT_ITEMS`."""
    if items > LIMIT_ITEMS:
        raise TooLarge(f"body: more than {LIMIT_ITEMS} points or spans; send smaller reports", field="body")


def encode(message: Message, kind: str) -> bytes:
    """An answer in the encoding of its request."""
    if kind == JSON:
        return json_format.MessageToJson(message, indent=None).encode()
    return message.SerializeToString()
