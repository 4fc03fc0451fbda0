"""One check of `tailwright doctor`, and how it is told."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import typer


@dataclass(frozen=True)
class Finding:
    """`mend` says what to do when it is not fine. What is not `needed` only lessens what can be seen or moved."""

    name: str
    fine: bool
    found: str
    mend: str = ""
    needed: bool = True

    @property
    def mark(self) -> str:
        return "ok" if self.fine else "BAD" if self.needed else "less"


def tell(findings: Sequence[Finding]) -> None:
    """A line each; under one that is not fine, its mend."""
    for finding in findings:
        typer.echo(f"{finding.mark:<4} {finding.name}: {finding.found}")
        if not finding.fine and finding.mend:
            typer.echo(f"     {finding.mend}")


def document_of(findings: Sequence[Finding]) -> dict[str, Any]:
    """What `--json` prints: {"fine", "findings"}."""
    told = [{**asdict(finding), "mark": finding.mark} for finding in findings]
    return {"fine": status(findings) == 0, "findings": told}


def status(findings: Sequence[Finding]) -> int:
    """The exit status: 1 when something needed is not fine."""
    return 1 if any(finding.needed and not finding.fine for finding in findings) else 0
