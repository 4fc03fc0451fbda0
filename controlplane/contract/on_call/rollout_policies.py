"""When and by whom a pool's nodes may be told another revision: policies, freeze windows and pins."""

from datetime import datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, Field, field_validator, model_validator

from controlplane.contract.bodies.rollouts import LabelName, OnInconclusive, WaveOrder, check_waves
from controlplane.contract.changes.label_selector import SelectorText

LONGEST_SOAK_S = 30 * 86400.0
CLOCK_TIME = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"


class Weekday(StrEnum):
    """Days of the week, as hours name them."""

    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"


_DAYS = list(Weekday)


class Hours(BaseModel):
    """When stages may begin: on these days from `opens` until `closes`, overnight where that is earlier."""

    days: list[Weekday] = Field(default=list(Weekday)[:5], min_length=1, description="days on which it opens")
    opens: str = Field(pattern=CLOCK_TIME, description="hour and minute, as in 09:00")
    closes: str = Field(pattern=CLOCK_TIME, description="hour and minute, as in 16:30")
    zone: str = Field(default="UTC", max_length=64, description="time zone of them, as in Europe/London")

    def is_open(self, now: datetime) -> bool:
        """Whether a stage may begin at this moment."""
        local = now.astimezone(ZoneInfo(self.zone))
        clock, today = f"{local:%H:%M}", _DAYS[local.weekday()]
        if self.opens <= self.closes:
            return today in self.days and self.opens <= clock < self.closes
        yesterday = _DAYS[(local - timedelta(days=1)).weekday()]
        return (today in self.days and clock >= self.opens) or (yesterday in self.days and clock < self.closes)

    @field_validator("zone")
    @classmethod
    def _known(cls, zone: str) -> str:
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("no such time zone; write one as in Europe/London") from None
        return zone


class RolloutPolicyCreate(BaseModel):
    """What holds for every rollout to a pool. Emergencies, which want an admin, are bound by `needs_approval` and
    `approvers` alone."""

    pool: str = Field(min_length=1, max_length=200, description="the pool")
    proposers: list[str] = Field(
        default=[], max_length=50, description="names or owners who may propose; none: whoever has scope operate"
    )
    approvers: list[str] = Field(
        default=[], max_length=50, description="names or owners who may approve; none: any other admin"
    )
    needs_approval: bool = Field(
        default=False,
        description="whether rollouts begin only when another has approved, but what a rule's remedy starts by itself",
    )
    max_step_share: float | None = Field(
        default=None, gt=0, le=1, description="the largest share of the pool told at once; null: as the rollout says"
    )
    canary_selector: SelectorText = Field(
        default="", description="labels of the nodes that may be the canary where the rollout does not say; empty: any"
    )
    wave_by: LabelName = Field(
        default="", description="a label whose values no wave mixes, where the rollout names none; empty: none"
    )
    wave_order: WaveOrder = Field(default=[], description="values of `wave_by` in the order in which they are done")
    wave_soak_s: float = Field(
        default=0,
        ge=0,
        le=LONGEST_SOAK_S,
        description="seconds for which one value's nodes are watched on before the next value's are told",
    )
    wave_pause: bool = Field(
        default=False, description="whether a person is waited for between one value of `wave_by` and the next"
    )
    hours: Hours | None = Field(default=None, description="when stages may begin; null: at any time")
    on_inconclusive: OnInconclusive | None = Field(
        default=None, description="what becomes of a harmless, undecided canary where the rollout does not say"
    )

    @model_validator(mode="after")
    def _ordered(self) -> "RolloutPolicyCreate":
        check_waves(self.wave_by, self.wave_order, self.wave_soak_s, self.wave_pause)
        return self


class RolloutPolicy(RolloutPolicyCreate):
    """A pool's policy as it is kept."""

    id: int = Field(description="the policy's number")
    updated_by: str = Field(description="who made it so last")
    updated_at: datetime = Field(description="when")


class FreezeCreate(BaseModel):
    """A time in which no rollout begins, nor tells more nodes; what runs is judged on. Emergencies are apart."""

    pool: str | None = Field(default=None, max_length=200, description="the pool; null: every pool")
    starts_at: datetime = Field(description="since when")
    ends_at: datetime = Field(description="until when")
    reason: str = Field(min_length=1, max_length=500, description="why, for people")


class Freeze(FreezeCreate):
    """A freeze window as it is kept."""

    id: int = Field(description="the window's number")
    created_by: str = Field(description="who made it")
    created_at: datetime = Field(description="when")


class PinCreate(BaseModel):
    """A node, or a pool, that keeps the revision it has now: nobody tells it another while it is pinned."""

    pool: str = Field(min_length=1, max_length=200, description="the pool")
    node: str | None = Field(default=None, max_length=200, description="one of its serving nodes; null: all of it")
    reason: str = Field(min_length=1, max_length=500, description="why, for people")


class Pin(PinCreate):
    """A pin as it is kept."""

    id: int = Field(description="the pin's number")
    revision: int = Field(description="the revision that it keeps")
    created_by: str = Field(description="who made it")
    created_at: datetime = Field(description="when")
