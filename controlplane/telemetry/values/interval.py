"""The pieces of time that an exporter sends one after the other (pure).

Guarantee: intervals of one length start at multiples of it since the epoch, so that two runs cut time at the same
places and a receiver can tell a repeat by its start and end.
"""

from datetime import datetime, timedelta

from controlplane.telemetry.values.timespan import EPOCH, Span


def floor(time: datetime, length_s: int) -> datetime:
    """The latest start of an interval that is not after `time`."""
    return time - (time - EPOCH) % timedelta(seconds=length_s)


def after(position: datetime, length_s: int) -> Span:
    """From a position to the next multiple: shorter than the others once, when the length has been changed."""
    return Span(position, floor(position, length_s) + timedelta(seconds=length_s))
