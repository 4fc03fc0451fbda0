"""From which share of the time on a host's trouble counts, one place for all who judge hosts.

Diagnosis compares what a share grew by with them; where requests are told apart, the two sides of a box are compared
with one another, and a window's own share is.
"""

MIN_GROWTH = 0.1
"""Of CPU used by others, of steal, of throttled periods, of waiting for a CPU or for I/O."""
MIN_STALL_GROWTH = 0.05
"""Of time stalled for want of memory."""
