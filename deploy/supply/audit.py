"""`make audit` asks a source of advisories about everything in deploy/locks, by pip-audit.

Ends with 1 where a locked version has a known vulnerability that is not ACCEPTED, or could not be looked up. Where no
source can be reached nothing is known: that is said aloud, and ends with 0, or 1 under TAILWRIGHT_AUDIT_REQUIRED=1.
pip-audit by itself calls a distribution that its source does not know "skipped", and ends well.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from deploy.supply.lock_file import LOCKS, ROOT

SOURCES = ("pypi", "osv")
"""pip-audit's names of them, in the order in which they are tried."""

PROBE = "torch"
"""A lock of one well-known distribution: a source that does not know it is none."""

GROUPS = (("run", "torch", "torch-cuda", "gpu", "parquet", "test"), ("vllm",))
"""Locks that are installed beside each other; a distribution has one version in each group."""

ACCEPTED: dict[str, str] = {}
"""Advisories that do not concern Tailwright, by their id, with the reason."""


@dataclass(frozen=True)
class Findings:
    """What a source said: the vulnerabilities ("name version: ids, mended in ..."), and what it did not know."""

    looked_up: int
    vulnerable: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def good(self) -> bool:
        return self.looked_up > 0 and not self.vulnerable and not self.unknown


class NoAnswer(Exception):
    """The source could not be asked; the message says why, in a line."""


def main() -> int:
    source, refusals = None, []
    for name in SOURCES:
        try:
            probed = ask(name, (PROBE,))
        except NoAnswer as error:
            refusals.append(f"{name}: {error}")
            continue
        if probed.looked_up:
            source = name
            break
        refusals.append(f"{name}: does not know {', '.join(probed.unknown)}")
    if source is None:
        required = os.environ.get("TAILWRIGHT_AUDIT_REQUIRED") == "1"
        print("audit SKIPPED: no advisory source; nothing is known of the locked versions.", *refusals, sep="\n  ")
        return 1 if required else 0
    try:
        findings = [ask(source, group) for group in GROUPS]
    except NoAnswer as error:
        print(f"audit FAILED: {source} answered for {PROBE}, then no more: {error}")
        return 1
    for found in findings:
        print(
            *(f"VULNERABLE {line}" for line in found.vulnerable),
            *(f"UNKNOWN {name}" for name in found.unknown),
            sep="\n",
        )
    print(f"audit: {sum(found.looked_up for found in findings)} locked versions looked up at {source}")
    return 0 if all(found.good for found in findings) else 1


def ask(source: str, locks: tuple[str, ...]) -> Findings:
    """What `source` knows of the distributions in `locks`. Raises NoAnswer."""
    files = [argument for name in locks for argument in ("-r", str(LOCKS / f"{name}.txt"))]
    fixed = ["--require-hashes", "--disable-pip", "--progress-spinner", "off", "--format", "json"]
    command = [sys.executable, "-m", "pip_audit", "--vulnerability-service", source, *fixed, *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.strip().splitlines() or ["no answer"]
        raise NoAnswer(lines[-1][:300]) from None
    return findings_of(answer, ACCEPTED)


def findings_of(answer: dict[str, Any], accepted: dict[str, str]) -> Findings:
    """pip-audit's JSON, without the `accepted` advisories (by any of their ids)."""
    known = [told for told in answer["dependencies"] if "skip_reason" not in told]
    vulnerable = []
    for told in known:
        for advisory in told["vulns"]:
            ids = [advisory["id"], *advisory.get("aliases", [])]
            if not accepted.keys() & set(ids):
                mended = ", ".join(advisory["fix_versions"]) or "none yet"
                vulnerable.append(f"{told['name']} {told['version']}: {' '.join(ids)}, mended in {mended}")
    unknown = tuple(told["name"] for told in answer["dependencies"] if "skip_reason" in told)
    return Findings(len(known), tuple(vulnerable), unknown)


if __name__ == "__main__":
    sys.exit(main())
