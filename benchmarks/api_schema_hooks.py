"""How schemathesis writes the bodies of media types that it does not know: bytes, as they are."""

from typing import Any

import schemathesis
from schemathesis import SerializationContext

from controlplane.contract.reports import packed_report, report_bundle
from controlplane.contract.reports.media_types import PROTOBUF


@schemathesis.serializer(PROTOBUF, packed_report.MEDIA_TYPE, report_bundle.MEDIA_TYPE)
def as_bytes(_: SerializationContext, value: Any) -> bytes:
    data = getattr(value, "data", value)
    return data if isinstance(data, bytes) else str(data).encode()
