"""The managed server as a `Backend`."""

from pathlib import Path

from agents.vllm_backend.attached import AttachedVllm
from agents.vllm_backend.node_file import NodeFile


class ManagedVllm(AttachedVllm):
    """One served model, kept up."""

    def __init__(self, node_file: NodeFile, state_dir: Path) -> None:
        super().__init__("http://127.0.0.1:8000", state_dir)
        self.node_file = node_file
