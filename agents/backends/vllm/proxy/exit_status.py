"""How the proxy's process ends: the launcher tells the reasons apart by it."""

from enum import IntEnum


class ExitStatus(IntEnum):
    ENDED = 0  # It was asked to stop, and did.
    BAD_OPTIONS = 2  # As argparse ends.
    PORT_TAKEN = 3  # Another program listens there, or the address is not this machine's.
    SOCKET_TAKEN = 4  # Another proxy holds the control socket.
