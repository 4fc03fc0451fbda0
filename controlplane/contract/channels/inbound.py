"""What others post: wire models of alerts of other systems, and of marks."""

from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, Field

EVENT_POSTED = "event.posted"
"""The ledger's kind of an entry that tells of a mark; its evidence has the mark's `time` and `labels`."""

LabelName = Annotated[str, Field(min_length=1, max_length=256)]
LabelValue = Annotated[str, Field(max_length=256)]


class InboundTaken(BaseModel):
    """What came of a message of another system."""

    taken: int = Field(description="alerts that it told of and that are kept")
    changed: int = Field(description="those that are new, or in another state than before")
    ours: int = Field(default=0, description="alerts of our own that came back; they are known, and passed over")
    refused: int = Field(default=0, description="new alerts that there was no room for: counted, and not kept")
    shortened: int = Field(default=0, description="alerts of which not all labels and annotations are kept")


class InboundAlert(BaseModel):
    """An alert of another system, as it told of it last."""

    id: int = Field(description="its number here")
    source: str = Field(description="`alertmanager` or `grafana`")
    fingerprint: str = Field(description="what it is known by over there")
    status: str = Field(description="`firing` or `resolved`")
    labels: dict[str, str] = Field(description="what it is about")
    annotations: dict[str, str] = Field(description="what it says")
    link: str = Field(description="where it comes from; empty: not told")
    starts_at: datetime = Field(description="when it began")
    ends_at: datetime | None = Field(default=None, description="when it ended, or will unless it is told of again")
    alert_id: int | None = Field(default=None, description="the alert that stands for it in incidents")
    taken_at: datetime = Field(description="when it was first told of")
    received_at: datetime = Field(description="when it was last told of")
    sent_by: str = Field(description="whose token told of it")


class EventCreate(BaseModel):
    """A deed of others, such as a deploy."""

    kind: str = Field(pattern=r"^[a-z][a-z0-9_.-]{0,63}$", description="what it was, such as `deploy`")
    subject: str = Field(min_length=1, max_length=256, description="of what, such as `gateway 4.2.1`")
    time: AwareDatetime | None = Field(default=None, description="when, with its offset from UTC; null: now")
    labels: dict[LabelName, LabelValue] = Field(
        default={}, max_length=32, description="where, such as the pool: at most 32"
    )
    link: str | None = Field(
        default=None, max_length=2048, pattern=r"^https?://", description="where there is more of it"
    )


class PostedEvent(EventCreate):
    """A mark as it is kept."""

    id: int = Field(description="its number")
    time: datetime = Field(description="when it was")
    posted_by: str = Field(description="whose token told of it")
    received_at: datetime = Field(description="when it was told of")
