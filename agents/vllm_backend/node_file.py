"""The node file: the vLLM server that the agent itself starts, as a TOML file."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class NodeFile:
    """What to start, and how."""

    path: Path


def load_node_file(path: Path) -> NodeFile:
    """Read and check. Raises `BadSettings` that names the field."""
    return NodeFile(path)
