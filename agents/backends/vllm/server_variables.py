"""Variables of the vLLM CPU servers that this checkout starts: demo, benchmarks, tests."""

from typing import Final

OFFLINE: Final = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
"""Nothing is looked up, and nobody is told."""


def sharing_cores(threads: int) -> dict[str, str]:
    """For a server that shares its cores with others: whatever waits does not spin.

    Two servers on two cores that spin are several times slower than one.
    """
    return {
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        # A worker of its own would spin for a second after each step, which on few cores starves the rest
        # (vllm/distributed/device_communicators/shm_broadcast.py, SpinCondition).
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "OMP_NUM_THREADS": str(threads),
        "NUMBA_NUM_THREADS": str(threads),  # The n-gram drafter's.
        "OMP_WAIT_POLICY": "PASSIVE",
        "KMP_BLOCKTIME": "0",
    }
