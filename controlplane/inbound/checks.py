"""Checks of what others post: each error names its field and the mend."""

from controlplane.contract.channels.inbound import EventCreate
from controlplane.contract.errors import BadRequest

MOST_LABELS, MOST_LABEL = 32, 256


def check_event(wanted: EventCreate) -> None:
    """Raises `BadRequest`."""
    if len(wanted.labels) > MOST_LABELS:
        raise BadRequest(f"labels: at most {MOST_LABELS}", field="labels")
    for name, value in wanted.labels.items():
        if not 1 <= len(name) <= MOST_LABEL or len(value) > MOST_LABEL:
            raise BadRequest(f"labels: names of 1 and texts of at most {MOST_LABEL} characters", field="labels")
