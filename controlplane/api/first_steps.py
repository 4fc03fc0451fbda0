"""The first steps with a new service, with their commands filled in: pure."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from controlplane.contract.bodies.onboarding import OnboardingStep, StepName

NODE, POOL, ENGINE_PORT = "gpu-1", "chat", 7401
MODEL = Path("agents/models/tailwright-py-5m")
"""The bundled one, in the checkout."""


@dataclass(frozen=True)
class Place:
    """What stands in the commands. A file of None is one whose path is not known: the reader fills it in.

    program: how `tailwright` is called; folder: where the node keeps its state.
    """

    service_url: str
    enrolment_token_file: Path | None = None
    read_token_file: Path | None = None
    program: str = "tailwright"
    model: Path = MODEL
    folder: Path = Path("agent-state") / NODE


@dataclass(frozen=True)
class Seen:
    """What the service has seen so far: a node that enrolled, one whose engine's configuration was read, any report,
    and any request's latency."""

    enrolled: bool = False
    engine: bool = False
    reported: bool = False
    measured: bool = False


def first_steps(place: Place, seen: Seen) -> list[OnboardingStep]:
    """All steps in their order. A sender that is no agent of ours (OTLP) does what is before its own step, too."""
    engine_url = f"http://127.0.0.1:{ENGINE_PORT}"
    engine: list[object] = [place.program, "engine", "--model", place.model, "--port", ENGINE_PORT]
    agent: list[object] = [place.program, "agent", "--node", NODE, "--pool", POOL, "--engine-url", engine_url]
    agent += ["--server-url", place.service_url]
    agent += ["--enrolment-token-file", place.enrolment_token_file or "FILE", "--state-dir", place.folder]
    traffic: list[object] = [place.program, "traffic", "--pool", POOL, "--server", place.service_url]
    traffic += ["--token-file", place.read_token_file or "FILE"]
    reported = seen.reported or seen.measured
    return [
        OnboardingStep(name=StepName.ENGINE, done=seen.engine or reported, command=_line(engine)),
        OnboardingStep(name=StepName.AGENT, done=seen.enrolled or reported, command=_line(agent)),
        OnboardingStep(name=StepName.TRAFFIC, done=seen.measured, command=_line(traffic)),
    ]


def _line(words: list[object]) -> str:
    return shlex.join(str(word) for word in words)
