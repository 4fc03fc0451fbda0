"""What a file comes to when it is packed, held against what the service keeps."""

from controlplane.contract.bodies.workload import LONGEST_TRAFFIC
from controlplane.terminal.service_connection import fail


def refuse_too_large(packed: str, shorter: str) -> None:
    """Leaves with status 1 where it is too large. `shorter`: the option that keeps a part of the file."""
    if len(packed) > LONGEST_TRAFFIC:
        fail(
            f"--file: {len(packed):,} bytes when it is packed, and {LONGEST_TRAFFIC:,} can be kept; "
            f"keep a part of it: {shorter} N",
            1,
        )
