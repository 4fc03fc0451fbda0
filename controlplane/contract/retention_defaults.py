"""How long each width of telemetry's windows is kept, unless settings say otherwise."""

from collections.abc import Mapping

HOUR_S = 3600
DAY_S = 24 * HOUR_S
LEVELS_S: Mapping[int, float] = {5: 8 * HOUR_S, 10: 2 * DAY_S, 60: 14 * DAY_S, 300: 90 * DAY_S, 3600: 730 * DAY_S}
"""Width in seconds to seconds. The default alert rule's baseline reads six hours and a half at 5 s."""
LONGEST_S = max(LEVELS_S.values())
