"""`python -m tuner --server URL --token-file F`: one tuning worker, until SIGTERM or SIGINT."""

import argparse
import logging
import os
import signal
import socket
import threading
from pathlib import Path

from controlplane.client import Client
from tuner.study.worker import Worker


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tuner", description="Claims tuning studies and runs them.")
    parser.add_argument("--server", default=os.environ.get("TAILWRIGHT_SERVER", "http://127.0.0.1:7300"))
    parser.add_argument(
        "--token-file", type=Path, default=os.environ.get("TAILWRIGHT_TOKEN_FILE"), help="scope operate"
    )
    parser.add_argument("--name", default=f"tuner-{socket.gethostname()}-{os.getpid()}", help="this worker's name")
    parser.add_argument("--sampler", choices=("gp", "tpe"), help="default: gp where torch is installed, else tpe")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    token = (
        Path(arguments.token_file).read_text().strip() if arguments.token_file else os.environ.get("TAILWRIGHT_TOKEN")
    )
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with Client(arguments.server, token) as client:
        Worker(client, arguments.name, sampler=arguments.sampler, stop=stop).loop()


if __name__ == "__main__":
    main()
