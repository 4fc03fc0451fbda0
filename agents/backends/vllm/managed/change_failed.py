"""The error of a change that was tried and taken back."""

from controlplane.contract.errors import Conflict


class ChangeFailed(Conflict):
    """A server with the wanted configuration did not come up; the previous one is in force, or coming back."""

    code = "change_failed"
