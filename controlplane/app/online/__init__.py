"""Careful tuning in production: studies without a trial node, whose steps are rollouts.

`OnlineTuning` is the tick that carries them on, `may_tune` says who may ask for one.
"""

from controlplane.app.online.online_tuning import OnlineTuning
from controlplane.app.online.permission import may_tune

__all__ = ["OnlineTuning", "may_tune"]
