"""What `tailwright up` says on standard output once it is ready: pure."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from controlplane.api.first_steps import Place
from controlplane.contract.bodies.onboarding import OnboardingStep, StepName

WHAT = {
    StepName.ENGINE: "an engine (the bundled model, on the processor)",
    StepName.AGENT: "the agent beside it",
    StepName.TRAFFIC: "steady traffic, for a first look",
}


def ready_lines(
    place: Place,
    steps: Sequence[OnboardingStep],
    tokens: Sequence[Path],
    *,
    dashboard: bool,
    link: str | None = None,
    link_s: float = 0.0,
) -> list[str]:
    """`tokens`: the token files that are there. `link` signs a browser in, once, for `link_s` seconds; None: none is
    said. Of the steps, those that are not done."""
    lines = [f"Tailwright is ready at {place.service_url}"]
    opening = [place.program, "open", "--server", place.service_url]
    opening += ["--token-file", str(place.read_token_file or "FILE")]
    if dashboard and link is not None:
        lines += [f"  dashboard  {link}", f"             signs one browser in, once, within {link_s:.0f} s; later:"]
    if dashboard:
        lines.append(f"  {'' if link is not None else 'dashboard':<9}  {shlex.join(opening)}")
    if tokens:
        names = ", ".join(file.name for file in tokens)
        lines.append(f"  tokens     {names} in {tokens[0].parent} (admin-token may do everything)")
    missing = [step for step in steps if not step.done]
    if missing:
        lines.append("Next, each in a terminal of its own:")
    for step in missing:
        lines += [f"  # {WHAT[step.name]}", f"  {step.command}"]
    return lines
