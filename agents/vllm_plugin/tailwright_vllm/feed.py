"""Hands the ring's events to the agent over a Unix socket, in a thread of its own.

Protocol (that of an engine's `/events`, without HTTP): the reader sends one line {"boot": B, "after": N}; the feed
answers with a line {"kind": "hello", "boot", "oldest", "model", "dropped", ...}, then with the events numbered above N,
or from the oldest held when B is not this process, one JSON object a line, and follows. `dropped` counts the events
that fell out of the ring before any reader got them; so does the `dropped` of an event, for those right before it.
One reader at a time: a new one takes the place of the old. Events are handed on when they are SETTLE_S old, so that the
engine's process has told by then which revision was in force.

Guarantees: a slow, stuck or vanished reader costs vLLM nothing: the thread sends with a time limit and drops the
reader. A socket or folder that is removed is made again within about a second. Where another process serves the
folder, this one hands its records to that one if it is of the same vLLM (`relay.py`), and takes over when it is gone.
"""

import contextlib
import json
import secrets
import select
import socket
import threading
import time
from pathlib import Path

from tailwright_vllm import __version__
from tailwright_vllm.folder import EFFECTIVE, VARIABLE
from tailwright_vllm.installation import Installation, vllm_version
from tailwright_vllm.records import BoundSteps, events_of
from tailwright_vllm.relay import Inlet, Outlet
from tailwright_vllm.revisions import Revisions
from tailwright_vllm.ring import Numbered, Ring
from tailwright_vllm.served_socket import ServedSocket
from tailwright_vllm.statistics import Loads
from tailwright_vllm.step_counts import StepGrowth
from tailwright_vllm.surprises import described, log, surprises

SETTLE_S = 0.1
_SEND_TIMEOUT_S = 5.0
_ASK_TIMEOUT_S = 5.0
_LOOK_S = 1.0
"""How often the thread looks at most whether its socket is still there."""
_FLUSH_S = 0.1
"""How often new events are handed on while a reader follows, so that a step costs no wake-up of its own."""
_COUNT_S = 0.25
"""How often the thread looks at most how many steps were counted; they are told once a second (`limits.py`)."""
_LATE_S = 0.999
"""Steps of a second come at its end."""
_BREATH_S = 0.002
"""Pause between two full batches, so that catching up leaves vLLM's event loop its turns."""
_BATCH = 64
"""Records a batch."""
_LONGEST_ASK = 4096

_feeds: dict[Path, "Feed"] = {}


def shared_feed(folder: Path, model: str, installation: Installation | None = None) -> "Feed":
    """This process's feed in the folder, made once. Raises ValueError when the folder's path is too long."""
    if folder not in _feeds:
        _feeds[folder] = Feed(folder, model, installation)
    return _feeds[folder]


class Feed:
    """Serves the folder's socket. Raises ValueError when its path is too long for a Unix socket."""

    def __init__(self, folder: Path, model: str, installation: Installation | None = None) -> None:
        self._socket = ServedSocket(folder)
        self.path = self._socket.path
        self.ring = Ring()
        self.loads = Loads()
        self.details = False
        self._boot = secrets.token_hex(8)
        self._model = model
        self._installation = installation
        self._revisions = Revisions(folder / EFFECTIVE)
        self._highest_sent = 0
        self._dropped = 0
        self._told: str | None = None
        self._inlet: Inlet | None = None
        self._outlet = Outlet(folder, self.ring)
        self._folder = folder
        self._growth = StepGrowth(folder)
        self._counted = time.monotonic()
        self._ended = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="tailwright-feed", daemon=True)

    def start(self) -> None:
        """Serve from now on, once; a socket that cannot be made now is tried again every second."""
        if self._thread.ident is None:
            self._hold()
            self._thread.start()

    @property
    def serving(self) -> bool:
        """This process has the socket."""
        return self._socket.held

    def close(self) -> None:
        """Serve no more; the reader sees its stream end."""
        self._stop.set()

    def end(self, why: str) -> None:
        """Serve no more, and tell why in plugin.json."""
        self._ended = why
        self.close()

    def _serve(self) -> None:
        while not self._stop.is_set():
            try:
                listener = self._hold()
                self._count_steps()
                if listener is None:
                    self._hand_over()
                elif select.select([listener], [], [], min(_LOOK_S, 0.25))[0]:
                    reader, _ = listener.accept()
                    with reader:
                        self._follow(reader, listener)
            except (OSError, ValueError, KeyError, TypeError) as error:
                log.debug("tailwright: the reader is gone (%s)", described(error))
            except Exception as error:  # noqa: BLE001 - the thread lives as long as vLLM.
                surprises.note("feed", "the feed stumbled", error)
                self._stop.wait(_LOOK_S)
        self._socket.release()
        self._outlet.close()
        if self._inlet is not None:
            self._inlet.close()
        if self._ended:
            self._tell(self._ended)

    def _hold(self) -> socket.socket | None:
        """The listening socket; None while it cannot be had, which is told once."""
        try:
            listener = self._socket.hold()
        except OSError as error:
            surprises.note("socket", f"{self.path} cannot be made, tried again every second", error)
            self._tell(f"{self.path.name} cannot be made: {described(error)}")
            return None
        if listener is not None:
            self._take_in()
            self._tell("")
        elif self._inlet is not None:
            self._inlet.close()
            self._inlet = None
        return listener

    def _take_in(self) -> None:
        """Be there for the other processes of this vLLM, if it has several."""
        if self._installation is None or self._installation.api_servers < 2:
            return
        if self._inlet is not None and not self._inlet.is_there():
            self._inlet.close()
            self._inlet = None
        if self._inlet is None:
            self._outlet.close()
            try:
                self._inlet = Inlet(self._folder, self.ring)
            except OSError as error:
                surprises.note("relay", "the requests of vLLM's other API servers are not seen by the agent", error)

    def _hand_over(self) -> None:
        """Another process serves: hand the records to it, or wait until it is gone."""
        several = self._installation is not None and self._installation.api_servers > 1
        if several and self._outlet.send():
            self._told = "elsewhere"
            self._stop.wait(_FLUSH_S)
            return
        if self._told is None and not several:
            self._told = "elsewhere"  # That process writes plugin.json, this one must not.
            log.warning(
                "tailwright: another vLLM already serves %s; the requests of this one are not seen by the agent until "
                "that one ends (each vLLM wants its own %s)",
                self.path,
                VARIABLE,
            )
        self._stop.wait(_LOOK_S)

    def _tell(self, why_not: str) -> None:
        if self._installation is None:
            return
        if why_not != self._told or not self._installation.path.exists():
            self._told = why_not
            self._installation.raw_statistics(not why_not, why_not, details=self.details)

    def _follow(self, reader: socket.socket, listener: socket.socket) -> None:
        sent = self._resume_point(_read_line(reader))
        reader.settimeout(_SEND_TIMEOUT_S)
        hello = {"kind": "hello", "boot": self._boot, "oldest": self.ring.oldest, "model": self._model}
        counted = {"dropped": self._count_dropped(), "plugin": __version__, "surprises": surprises.counts}
        of_engine = {"process": f"plugin:{self._boot}", "version": f"vllm {vllm_version()}"}
        reader.sendall(json.dumps({**hello, **of_engine, **counted}).encode() + b"\n")
        looked = time.monotonic()
        while not self._stop.is_set():
            if time.monotonic() - looked >= _LOOK_S:
                looked = time.monotonic()
                if self._hold() is not listener or _waits(listener):
                    return
            self._count_steps()
            due = self._due(sent)
            if due:
                content, sent = self._lines(due, sent)
                reader.sendall(content)
                self._highest_sent = max(self._highest_sent, sent)
            if len(due) >= _BATCH - 1:  # The first of a batch may have been sent already.
                self._stop.wait(_BREATH_S)
            elif select.select([reader, listener], [], [], _FLUSH_S)[0] and (_is_gone(reader) or _waits(listener)):
                return

    def _due(self, sent: int) -> list[Numbered]:
        """The next records that are old enough; of a clock that was set back all are."""
        now = time.time()
        due = []
        for one in self.ring.after(sent, _BATCH):
            if 0 <= now - one.record.time < SETTLE_S:
                break
            due.append(one)
        return [one for one in due if one.first + one.record.events - 1 > sent]

    def _lines(self, due: list[Numbered], sent: int) -> tuple[bytes, int]:
        self._revisions.look()
        lines: list[bytes] = []
        for first, record, _ in due:
            for event in events_of(first, record, self._revisions.at(record.time)):
                number = event["seq"]
                if number <= sent:
                    continue
                if number > sent + 1:
                    event["dropped"] = number - sent - 1
                    self._count_dropped()
                lines.append(json.dumps(event, separators=(",", ":")).encode())
                sent = number
        return b"\n".join(lines) + b"\n", sent

    def _count_steps(self) -> None:
        """Record the steps since the last look; where another process serves, that one does."""
        if time.monotonic() - self._counted < _COUNT_S:
            return
        self._counted = time.monotonic()
        growth = self._growth.take()
        if self.serving:
            for second, by_limit in growth.items():
                steps = BoundSteps(min(time.time(), second + _LATE_S), by_limit)
                self.ring.append(steps, steps.events, steps.size)

    def _count_dropped(self) -> int:
        """Events of this process that fell out before any reader got them, each counted once."""
        fallen = self.ring.oldest - 1
        self._dropped += max(fallen - self._highest_sent, 0)
        self._highest_sent = max(self._highest_sent, fallen)
        return self._dropped

    def _resume_point(self, line: bytes) -> int:
        asked = json.loads(line or b"{}")
        if not isinstance(asked, dict):
            raise ValueError("the reader asked for nothing known")
        after = asked.get("after", 0)
        known = asked.get("boot") == self._boot and isinstance(after, int) and 0 <= after <= self.ring.newest
        return after if known else max(self.ring.oldest - 1, self._outlet.sent)  # What was handed over is told.


def _read_line(reader: socket.socket) -> bytes:
    """The reader's first line. Raises OSError when it takes too long."""
    deadline = time.monotonic() + _ASK_TIMEOUT_S
    content = b""
    while not content.endswith(b"\n") and len(content) < _LONGEST_ASK:
        reader.settimeout(max(deadline - time.monotonic(), 0.001))
        chunk = reader.recv(_LONGEST_ASK)
        if not chunk:
            break
        content += chunk
    return content


def _is_gone(reader: socket.socket) -> bool:
    reader.setblocking(False)
    try:
        return reader.recv(4096) == b""
    except BlockingIOError:
        return False
    finally:
        with contextlib.suppress(OSError):
            reader.settimeout(_SEND_TIMEOUT_S)


def _waits(listener: socket.socket) -> bool:
    return bool(select.select([listener], [], [], 0)[0])
