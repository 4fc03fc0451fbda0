"""Tailwright runs from its checkout: its package names are too general to be installed beside other distributions."""

import importlib.util
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("controlplane", "agents", "tuner", "web")


def foreign_packages(root: Path = ROOT) -> list[str]:
    """Packages that Python would import from somewhere other than `root`, each as "name (found at ...)"."""
    wrong = []
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin is None or not origin.is_relative_to(root):
            wrong.append(f"{package} (found at {origin})" if origin else f"{package} (not found)")
    return wrong


def release() -> str:
    """The version that is installed; "0" where nothing is, as in a checkout that was never installed."""
    try:
        return version("tailwright")
    except PackageNotFoundError:
        return "0"


def refusal(wrong: list[str]) -> str:
    """Why the command line will not start, and the mend."""
    return (
        f"Tailwright would import another distribution's packages: {', '.join(wrong)}.\n"
        f"Give it an environment of its own: run `make run` in {ROOT}, or `pip install -e .` there."
    )
