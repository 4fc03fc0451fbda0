"""Is the plugin installed where vLLM runs? Asked of that environment's own Python, without starting vLLM."""

import asyncio
import logging
from pathlib import Path

from agents.backends.vllm.node_file import NodeFile

log = logging.getLogger(__name__)

_ASK = "import importlib.util, sys; sys.exit(importlib.util.find_spec('tailwright_vllm') is None)"
_TIMEOUT_S = 30.0


async def has_plugin(node: NodeFile) -> bool:
    """What the node file says, else what the Python beside vLLM's command says; without one there: yes.

    An assumption that is wrong shows at once: vLLM's log then names the scheduler class that it cannot find.
    """
    if node.plugin is not None:
        return node.plugin
    python = Path(node.executable[0]).with_name("python")
    if not python.exists():
        return True
    process = await asyncio.create_subprocess_exec(
        python, "-c", _ASK, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await process.wait() == 0
    except TimeoutError:
        log.warning("%s did not say within %g s whether the plugin is installed, assuming it is", python, _TIMEOUT_S)
        process.kill()
        await process.wait()
        return True
