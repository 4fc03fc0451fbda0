"""Where this user's caches lie (XDG base directories)."""

import os
from pathlib import Path


def user_cache(variable: str, name: str) -> Path:
    """The folder that the environment's `variable` names, else Tailwright's cache `name`. RuntimeError: no home."""
    if given := os.environ.get(variable):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tailwright" / name
