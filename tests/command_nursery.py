"""A process that has imported once what a service consists of, and forks one for each line that it reads: imports are
three quarters of a start, and each test with a service would pay them. `tests/forked_commands.py` talks to it."""

import json
import os
import sys
from typing import Any, NoReturn

from controlplane.command.main import main
from controlplane.terminal import extras, parent_death

LOADED = ("controlplane.command.up", "controlplane.app.serve", "controlplane.command.ready.say_ready", "web.dashboard")


def become(words: list[str], environment: dict[str, str], log: str) -> NoReturn:
    """The command, as the leader of a process group of its own that ends with the nursery."""
    os.setsid()
    parent_death.ask_for_sigterm()
    for descriptor, file, how in (
        (0, os.devnull, os.O_RDONLY),
        (1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        (2, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    ):
        opened = os.open(file, how, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["tailwright", *words]
    sys.exit(main())


def ended(child: int) -> int | None:
    """Its exit code, negative by a signal; None while it runs."""
    found, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def answer(asked: dict[str, Any]) -> int | None:
    if "child" in asked:
        return ended(asked["child"])
    child = os.fork()
    if not child:
        become(**asked)
    return child


if __name__ == "__main__":
    for module in LOADED:
        extras.load(module)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
