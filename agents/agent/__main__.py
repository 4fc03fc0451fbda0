"""`python -m agents.agent --node NAME ...`: one agent process."""

import asyncio
import logging
import sys
from collections.abc import Sequence

from agents.agent import settings as agent_settings
from agents.agent.agent import Agent
from controlplane.contract.errors import BadSettings


def main(flags: Sequence[str] | None = None) -> int:
    """Run an agent until SIGTERM. Returns the exit status: 0, or 2 for a wrong setting."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)

    async def serve() -> None:
        await Agent(agent_settings.load(sys.argv[1:] if flags is None else flags)).run()

    try:
        asyncio.run(serve())
    except BadSettings as error:
        print(f"tailwright agent: {error.message}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
