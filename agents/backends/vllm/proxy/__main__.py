"""`python -m agents.backends.vllm.proxy --host H --port P --control SOCKET`: one proxy, until it is stopped."""

import asyncio
import errno
import logging
import sys
from collections.abc import Sequence

from aiohttp.http_exceptions import HttpProcessingError

from agents.backends.vllm.proxy import options
from agents.backends.vllm.proxy.exit_status import ExitStatus
from agents.backends.vllm.proxy.proxy_life import serve
from controlplane.contract.errors import Conflict, TailwrightError


class OneLineForGarbage(logging.Filter):
    """What is no HTTP, from whomever, gets a line of the log, not a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(error := record.exc_info[1], HttpProcessingError):
            record.msg, record.exc_info = f"{record.msg}: {type(error).__name__}", None
        return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status, see `ExitStatus`."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("aiohttp.server").addFilter(OneLineForGarbage())
    wanted = options.parse(arguments)
    try:
        asyncio.run(serve(wanted))
    except Conflict as error:
        print(f"tailwright vllm proxy: {error.message}", file=sys.stderr)
        return ExitStatus.SOCKET_TAKEN
    except TailwrightError as error:
        print(f"tailwright vllm proxy: {error.message}", file=sys.stderr)
        return ExitStatus.BAD_OPTIONS
    except OSError as error:
        print(f"tailwright vllm proxy: cannot listen on {wanted.host}:{wanted.port}: {error}", file=sys.stderr)
        return ExitStatus.PORT_TAKEN if error.errno == errno.EADDRINUSE else ExitStatus.BAD_OPTIONS
    return ExitStatus.ENDED


if __name__ == "__main__":
    sys.exit(main())
