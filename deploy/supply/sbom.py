"""`make sbom` writes controlplane/sbom.cdx.json, the bill of materials that the wheel ships: CycloneDX 1.6.

From deploy/locks it has what an installed Tailwright may hold (not what tests want): each distribution with version,
licence and the hashes of its files, what these carry of others' work, the bundled models, and who depends on whom. The
same locks and models give the same bytes: no time, no random number.
"""

import hashlib
import json
import sys
import tomllib
from importlib import metadata
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from deploy.supply import bundled, licences
from deploy.supply.lock_file import ROOT, Pin, read

FILE = ROOT / "controlplane" / "sbom.cdx.json"
REQUIRED, OPTIONAL = ("run", "torch"), ("torch-cuda", "gpu", "parquet")
"""Lock files by scope: what every node that runs all of Tailwright has, and what a build of torch or an extra adds."""

TORCH = canonicalize_name("torch")
LINUX = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.11.0",
    "python_version": "3.11",
    "sys_platform": "linux",
}
"""Where markers are judged, so that every machine writes the same bill."""

Json = dict[str, Any]


def main() -> int:
    text = bill()
    FILE.write_text(text)
    print(f"{FILE.relative_to(ROOT)}: {len(json.loads(text)['components'])} components")
    return 0


def bill() -> str:
    """The bill of materials as JSON. Raises UnknownLicence."""
    project: Json = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    scopes = {"required": REQUIRED, "optional": OPTIONAL}
    pins = {name: pin for files in scopes.values() for file in files for name, pin in read(file).items()}
    scope_of = {name: scope for scope, files in scopes.items() for file in files for name in read(file)}
    asks = depends(project)
    root = {
        "type": "application",
        "bom-ref": project["name"],
        "name": project["name"],
        "version": project["version"],
        "purl": f"pkg:pypi/{project['name']}@{project['version']}",
        "licenses": [{"expression": project["license"]}],
    }
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"lifecycles": [{"phase": "build"}], "component": root},
        "components": [
            *(component(pins[name], scope_of[name]) for name in sorted(pins)),
            *(from_checkout(thing) for thing in bundled.CHECKOUT),
        ],
        "dependencies": [
            {"ref": name, "dependsOn": sorted(asks.get(name, set()) & pins.keys())}
            for name in [project["name"], *sorted(pins)]
        ],
    }
    return json.dumps(bill, indent=1) + "\n"


def component(pin: Pin, scope: str) -> Json:
    """A locked distribution with what it carries."""
    purl = f"pkg:pypi/{pin.name}@{pin.version}"
    hashes = [{"alg": "SHA-256", "content": digest} for digest in pin.hashes]
    carried = [
        {
            "type": thing.kind,
            "name": thing.name,
            **({"version": thing.version} if thing.version else {}),
            "licenses": [{"expression": thing.licence}],
        }
        for thing in bundled.carried_by(pin.name)
    ]
    return {
        "type": "library",
        "bom-ref": pin.name,
        "name": pin.name,
        "version": pin.version,
        "scope": scope,
        "licenses": [{"expression": licences.licence_of(pin.name)}],
        "purl": purl,
        "externalReferences": [{"type": "distribution", "url": purl, "comment": "any of the files", "hashes": hashes}],
        **({"components": carried} if carried else {}),
    }


def from_checkout(thing: bundled.Carried) -> Json:
    """A file of the checkout, by its path and SHA-256."""
    digest = hashlib.sha256((ROOT / thing.name).read_bytes()).hexdigest()
    return {
        "type": thing.kind,
        "name": thing.name,
        **({"version": thing.version} if thing.version else {}),
        "licenses": [{"expression": thing.licence}],
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }


def depends(project: Json) -> dict[NormalizedName, set[NormalizedName]]:
    """Who asks for whom on Linux, from what pyproject.toml names for use on; of torch, PyPI's build."""
    root = canonicalize_name(project["name"])
    extras = (lines for extra, lines in project["optional-dependencies"].items() if extra != "dev")
    named = [Requirement(line) for lines in (project["dependencies"], *extras) for line in lines]
    asks = {
        root: {canonicalize_name(wanted.name) for wanted in named},
        canonicalize_name("torch"): set(read("torch-cuda")),
    }
    seen = set()
    while named:
        asker = named.pop()
        name = canonicalize_name(asker.name)
        if (name, *sorted(asker.extras)) in seen:
            continue
        seen.add((name, *sorted(asker.extras)))
        wanted = wanted_by(name, {"", *asker.extras})
        asks.setdefault(name, set()).update(canonicalize_name(one.name) for one in wanted)
        named += wanted
    return asks


def wanted_by(name: NormalizedName, extras: set[str]) -> list[Requirement]:
    """What an installed distribution with `extras` asks for on Linux. Raises PackageNotFoundError.

    Of what some machines alone have, CUDA's libraries and what reads a GPU, nothing: torch asks for the former.
    """
    lines = [] if name in {*read("torch-cuda"), *read("gpu")} else metadata.requires(name) or []
    wanted = map(Requirement, lines)
    return [
        one for one in wanted if one.marker is None or any(one.marker.evaluate({**LINUX, "extra": e}) for e in extras)
    ]


if __name__ == "__main__":
    sys.exit(main())
