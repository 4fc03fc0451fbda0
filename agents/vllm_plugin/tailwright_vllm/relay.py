"""Between the API server processes of one vLLM: the one that serves the agent takes in what the others record.

vLLM with --api-server-count above 1 (its default with data parallelism) answers each request in one of several
processes, and gives that request's statistics to that process alone. They share a parent, whose process id is in the
name of the socket here, so that another vLLM with the same folder by mistake is never mixed in.

Guarantee: each record reaches the serving process once at most; one that was under way when either end broke is lost,
and seen as lost by nobody, which is why a break is counted and told in the log.
"""

import contextlib
import json
import os
import select
import socket
import threading
from pathlib import Path

from tailwright_vllm.records import BoundSteps, Finished, FirstToken, Gaps, Iteration
from tailwright_vllm.ring import Ring
from tailwright_vllm.served_socket import listen
from tailwright_vllm.surprises import described, log, surprises

_SEND_TIMEOUT_S = 5.0
_BATCH = 64


def relay_path(folder: Path) -> Path:
    """The socket that the processes of this vLLM share."""
    return folder / f"relay.{os.getppid()}.sock"


def encode(record: "Iteration | BoundSteps") -> bytes:
    """One line."""
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> "Iteration | BoundSteps":
    """Raises ValueError or TypeError on what `encode` did not make."""
    fields = json.loads(line)
    if len(fields) == len(BoundSteps._fields):
        return BoundSteps._make(fields)
    *head, first_tokens, gaps, finished, work, drafted = fields
    made = (
        [FirstToken(*one) for one in first_tokens],
        [Gaps(*one) for one in gaps],
        [Finished(*one) for one in finished],
        None if work is None else tuple(work),
        drafted,
    )
    return Iteration._make([*head, *made])


class Inlet:
    """In the serving process: puts what the others send into its ring. Raises OSError when it cannot listen."""

    def __init__(self, folder: Path, ring: Ring) -> None:
        self._path, self._ring = relay_path(folder), ring
        self._listener = listen(self._path)
        self._stop = threading.Event()
        self._senders: set[socket.socket] = set()
        threading.Thread(target=self._accept, name="tailwright-relay", daemon=True).start()

    def is_there(self) -> bool:
        return self._path.exists()

    def close(self) -> None:
        """Take in no more; the senders see their connections end."""
        self._stop.set()
        for sender in list(self._senders):
            with contextlib.suppress(OSError):
                sender.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _accept(self) -> None:
        with self._listener as listener:
            while not self._stop.is_set():
                if select.select([listener], [], [], 0.25)[0]:
                    sender, _ = listener.accept()
                    self._senders.add(sender)
                    threading.Thread(target=self._take, args=(sender,), name="tailwright-relay", daemon=True).start()

    def _take(self, sender: socket.socket) -> None:
        with sender, sender.makefile("rb") as lines:
            try:
                for line in lines:
                    if self._stop.is_set():
                        return
                    if line.endswith(b"\n"):  # Else it was cut off in the middle.
                        record = decode(line)
                        self._ring.append(record, record.events, record.size)
            except (OSError, ValueError, TypeError) as error:
                surprises.note("relay", "another API server's statistics could not be taken in", error)
            finally:
                self._senders.discard(sender)


class Outlet:
    """In another process: sends its ring's records to the serving one. `sent` is the last event handed over."""

    def __init__(self, folder: Path, ring: Ring) -> None:
        self._path, self._ring = relay_path(folder), ring
        self._connection: socket.socket | None = None
        self.sent = 0

    def send(self) -> bool:
        """Hand over what is new, if the serving process is there. False: it is not."""
        try:
            if self._connection is None:
                self._connection = _connect(self._path)
                log.info("tailwright: this process's raw statistics go to the one that serves the agent")
            if select.select([self._connection], [], [], 0)[0]:  # It never speaks: this is its end.
                raise ConnectionResetError("the serving process is gone")
            while due := [one for one in self._ring.after(self.sent, _BATCH) if one.first > self.sent]:
                content = b"".join(encode(one.record) for one in due)
                self.sent = due[-1].first + due[-1].record.events - 1  # Before: a record is never sent twice.
                self._connection.sendall(content)
        except OSError as error:
            if self._connection is not None:
                surprises.note("relay", "the way to the process that serves the agent broke", described(error))
            self.close()
            return False
        return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _connect(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_SEND_TIMEOUT_S)
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection
