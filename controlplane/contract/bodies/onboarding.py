"""What a new service still lacks before it shows latency, and the command for each step."""

from enum import StrEnum

from pydantic import BaseModel, Field


class StepName(StrEnum):
    """The steps, in their order."""

    ENGINE = "engine"  # An engine serves, and an agent has read its configuration.
    AGENT = "agent"  # A node has enrolled.
    TRAFFIC = "traffic"  # A request's latency has been measured.


class OnboardingStep(BaseModel):
    """One step."""

    name: StepName = Field(
        description="`engine`: its configuration was read; `agent`: a node has enrolled; `traffic`: a "
        "request was measured"
    )
    done: bool = Field(description="whether it is done")
    command: str = Field(description="what does it, for a shell")


class Onboarding(BaseModel):
    """How far a new service is."""

    service_url: str = Field(description="where agents and browsers reach the service")
    enrolment_token_file: str | None = Field(
        description="the file of the enrolment token on the service's machine, shown to admins, and to everybody while "
        "the service listens on a loopback address alone; null: not shown, or not there"
    )
    reported: bool = Field(
        description="whether any telemetry has arrived; an agent beside an engine without requests has none to report"
    )
    steps: list[OnboardingStep] = Field(description="each step, in the order in which they are done")
