"""OTLP attributes to the store's labels, and to a stable identity.

Only the contract's attributes become labels: anything else a sender adds would multiply series without a use. The
identity keeps every attribute, so that two points that merge into one series are still told apart as reports.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import orjson
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from controlplane.contract.metrics import ATTRIBUTES, LABEL_OF
from controlplane.telemetry.refusal import Reason, Refused

MAX_LABEL = 256
RESOURCE_ONLY = frozenset(attribute.name for attribute in ATTRIBUTES if attribute.resource)

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Origin:
    """A resource: its labels, and the hash of all its attributes (signed 64 bits)."""

    labels: Mapping[str, str]
    identity: int


def hash64(data: bytes) -> int:
    """BLAKE2b with 8 bytes, as a signed integer (what a BIGINT column holds)."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little", signed=True)


def pairs_of(attributes: Iterable[KeyValue]) -> Pairs:
    """Attributes as text, in the sender's order. Values that are no plain ones keep a text for the identity only."""
    return tuple([(item.key, item.value.string_value or _text(item.value)) for item in attributes])


def labels_of(pairs: Pairs, *, of_resource: bool) -> dict[str, str]:
    """The labels among the attributes. Raises `Refused` for a value that is too long or holds a zero byte."""
    labels = {}
    for name, value in pairs:
        label = LABEL_OF.get(name)
        if label is None or value == "" or (name in RESOURCE_ONLY and not of_resource):
            continue
        if len(value) > MAX_LABEL:
            raise Refused(Reason.LABEL, f"attribute {name}: {len(value)} characters, at most {MAX_LABEL}")
        if "\0" in value:
            raise Refused(Reason.LABEL, f"attribute {name}: holds a zero byte")
        labels[label] = value
    return labels


def origin_of(attributes: Iterable[KeyValue]) -> Origin:
    pairs = pairs_of(attributes)
    return Origin(labels_of(pairs, of_resource=True), hash64(identity_of(pairs)))


def identity_of(pairs: Pairs) -> bytes:
    return orjson.dumps(sorted(pairs))


def canonical(labels: Mapping[str, str]) -> str:
    """Labels as JSON with sorted names: the key of a series."""
    return orjson.dumps(labels, option=orjson.OPT_SORT_KEYS).decode()


def _text(value: AnyValue) -> str:
    kind = value.WhichOneof("value")
    if kind == "int_value":
        return str(value.int_value)
    if kind == "bool_value":
        return "true" if value.bool_value else "false"
    if kind == "double_value":
        return repr(value.double_value)
    if kind is None or kind == "string_value":
        return ""
    return f"<{kind}:{value.SerializeToString(deterministic=True).hex()}>"
