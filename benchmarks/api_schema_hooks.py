"""How schemathesis writes the bodies of media types that it does not know: bytes, as they are; and where it may go."""

from typing import Any

import schemathesis
from schemathesis import Case, HookContext, SerializationContext

from controlplane.contract.reports import packed_report, report_bundle
from controlplane.contract.reports.media_types import PROTOBUF


@schemathesis.serializer(PROTOBUF, packed_report.MEDIA_TYPE, report_bundle.MEDIA_TYPE)
def as_bytes(_: SerializationContext, value: Any) -> bytes:
    data = getattr(value, "data", value)
    return data if isinstance(data, bytes) else str(data).encode()


@schemathesis.hook
def before_call(_: HookContext, case: Case[Any], __: dict[str, Any]) -> None:
    """A link that it has inferred may lead from what is null, such as the rollout of a study that has none: that
    would be asked for as "None", which no path allows. The first one is asked for then."""
    for name, value in case.path_parameters.items():
        if value is None:
            case.path_parameters[name] = 1
