"""What the service gave this node: its own token and the fleet's workload key, in a file of mode 600."""

import json
import logging
from dataclasses import asdict, dataclass, field
from pathlib import Path

from agents.host.durable_file import write_durably

log = logging.getLogger(__name__)

FILE_NAME = "credentials.json"


@dataclass(frozen=True)
class Credentials:
    """`token` has scope agent and is bound to `node`, which was enrolled in `pool` as `role`; `workload_key` keys the
    hashes of prompt blocks (hexadecimal)."""

    node: str
    pool: str
    role: str
    token: str = field(repr=False)
    workload_key: str = field(repr=False)

    @property
    def key_bytes(self) -> bytes:
        """The workload key as BLAKE2b takes it: at most 64 bytes."""
        try:
            return bytes.fromhex(self.workload_key)[:64]
        except ValueError:
            return self.workload_key.encode()[:64]


def load(state_dir: Path, node: str) -> Credentials | None:
    """The stored credentials of `node`; None when there are none (or another node's)."""
    path = state_dir / FILE_NAME
    try:
        stored = json.loads(path.read_bytes())
        found = Credentials(*(str(stored[name]) for name in ("node", "pool", "role", "token", "workload_key")))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        log.error("%s is damaged, enrolling anew: %s", path, error)
        return None
    return found if found.node == node else None


def save(state_dir: Path, credentials: Credentials) -> None:
    write_durably(state_dir / FILE_NAME, json.dumps(asdict(credentials)).encode(), mode=0o600)
