"""OTLP attributes to the store's labels, and to a stable identity.

Only the contract's attributes become labels: anything else a sender adds would multiply series without a use. The
identity keeps every attribute, so that two points that merge into one series are still told apart as reports.

Guarantee: the same bytes always give the same labels, so what was once read is remembered by its bytes; at most
`REMEMBERED_SETS` sets are.
"""

import hashlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson
from cachetools import LRUCache
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from controlplane.contract.metrics import ATTRIBUTES, LABEL_OF
from controlplane.telemetry.values.refusal import Reason, Refused

MAX_LABEL = 256
MAX_ATTRIBUTES = 128
"""Of a resource, or of a point: OpenTelemetry's own default limit."""
REMEMBERED_SETS = 50_000
MAX_REMEMBERED_BYTES = 4096
"""Longer attribute sets are read each time, so that what is remembered stays small."""
RESOURCE_ONLY = frozenset(attribute.name for attribute in ATTRIBUTES if attribute.resource)

Pairs = tuple[tuple[str, str], ...]


class LabelSet(NamedTuple):
    """labels: canonical JSON, the key of a series; identity: of all attributes of the point (signed 64 bits)."""

    labels: str
    identity: int


@dataclass(frozen=True)
class Origin:
    """A resource: its labels, and the hash of all its attributes (signed 64 bits)."""

    labels: Mapping[str, str]
    identity: int
    sets: dict[tuple[bytes, ...], LabelSet] = field(default_factory=dict, compare=False, repr=False)
    """Attribute sets of its points that were read already, by their bytes."""


def hash64(data: bytes) -> int:
    """BLAKE2b with 8 bytes, as a signed integer (what a BIGINT column holds)."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little", signed=True)


def pairs_of(attributes: Sequence[KeyValue]) -> Pairs:
    """Attributes as text, in the sender's order. Values that are no plain ones keep a text for the identity only."""
    if len(attributes) > MAX_ATTRIBUTES:
        raise Refused(Reason.LABEL, f"{len(attributes)} attributes, at most {MAX_ATTRIBUTES}")
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


def origin_of(attributes: Sequence[KeyValue]) -> Origin:
    pairs = pairs_of(attributes)
    return Origin(labels_of(pairs, of_resource=True), hash64(identity_of(pairs)))


def identity_of(pairs: Pairs) -> bytes:
    return orjson.dumps(sorted(pairs))


def canonical(labels: Mapping[str, str]) -> str:
    """Labels as JSON with sorted names: the key of a series."""
    return orjson.dumps(labels, option=orjson.OPT_SORT_KEYS).decode()


def label_set(origin: Origin, attributes: Iterable[bytes]) -> LabelSet:
    """The labels of a point of this resource, from its serialized attributes. Raises `Refused`."""
    key = tuple(attributes)
    found = origin.sets.get(key)
    if found is None:
        try:
            pairs = pairs_of([KeyValue.FromString(item) for item in key[: MAX_ATTRIBUTES + 1]])
        except (DecodeError, UnicodeDecodeError):
            raise Refused(Reason.LABEL, "attributes: not text in UTF-8, or nested too deeply") from None
        labels = {**origin.labels, **labels_of(pairs, of_resource=False)}
        found = LabelSet(canonical(labels), hash64(identity_of(pairs)))
        if sum(map(len, key)) <= MAX_REMEMBERED_BYTES:
            origin.sets[key] = found
    return found


class Origins:
    """Resources by their bytes, the longest unused forgotten first. Thread-safe."""

    def __init__(self, remembered_sets: int = REMEMBERED_SETS) -> None:
        self._lock = threading.Lock()
        self._found: LRUCache[bytes, Origin] = LRUCache(remembered_sets, lambda origin: len(origin.sets) + 1)

    def __len__(self) -> int:
        return len(self._found)

    def of(self, resource: bytes) -> Origin:
        """The origin of a serialized `Resource`. Raises `Refused`."""
        with self._lock:
            held = self._found.get(resource)
        if held is not None:
            return held
        try:
            return origin_of(Resource.FromString(resource).attributes)
        except (DecodeError, UnicodeDecodeError):
            raise Refused(
                Reason.LABEL, "resource: its attributes are not text in UTF-8, or nested too deeply"
            ) from None

    def remember(self, resource: bytes, origin: Origin) -> None:
        """To be called once a request's points are read: `origin.sets` has grown by then."""
        if len(resource) > MAX_REMEMBERED_BYTES:
            return
        with self._lock:
            try:
                self._found[resource] = origin
            except ValueError:  # It has outgrown all of the room.
                self._found.pop(resource, None)


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
