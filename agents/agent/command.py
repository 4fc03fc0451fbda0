"""`tailwright agent`: the agent beside one engine."""

import asyncio
import logging
import sys

from agents.agent.settings import AgentSettings
from controlplane.contract.errors import BadSettings
from controlplane.terminal import extras
from controlplane.terminal.config_file import ConfigFile
from controlplane.terminal.service_connection import fail
from controlplane.terminal.settings_options import with_settings
from controlplane.terminal.subcommand import subcommand

app = subcommand()


@app.command()
@with_settings("TAILWRIGHT_")
def agent(settings: AgentSettings, config: ConfigFile = None) -> None:
    """Stand beside one engine: count its timings, report them, apply its configuration."""
    extras.need("agent", "agent")
    with extras.loading():
        from agents.agent.agent import Agent

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)

    async def serve() -> None:
        await Agent(settings).run()

    try:
        asyncio.run(serve())
    except BadSettings as error:
        fail(f"tailwright agent: {error.message}")
