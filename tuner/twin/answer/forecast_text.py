"""A forecast in words. It never claims more than a forecast. Pure."""

from controlplane.contract.duration_text import duration_text
from controlplane.contract.knobs import ChangeClass
from controlplane.contract.metrics import E2E, TPOT, TTFT
from controlplane.contract.planning.whatif import ChangeOver, ForecastClass, WhatIf
from controlplane.contract.share_text import share_text

NO_PROOF = "A forecast is no proof: a study on a trial node measures it, and a canary judges it."
_TOLD = {
    f"{TTFT.short}:0.95": "p95 time to first token",
    f"{TPOT.short}:0.5": "median time per output token",
    f"{E2E.short}:0.95": "p95 of whole requests",
}


def summary_of(answer: WhatIf) -> str:
    parts = []
    for name, words in _TOLD.items():
        now, then = answer.as_is.quantiles.get(name), answer.changed.quantiles.get(name)
        if now is None or then is None:
            continue
        interval = f"{duration_text(then.low_s)} to {duration_text(then.high_s)}"
        parts.append(f"{words} {duration_text(then.value_s)} ({interval}) in place of {duration_text(now.value_s)}")
    said = f"Forecast: {'; '.join(parts)}." if parts else "Forecast: no request would be served."
    if (good := answer.changed.good) is not None and answer.as_is.good is not None:
        said += (
            f" Good are {share_text(good.share)} of the requests ({share_text(good.low)} to {share_text(good.high)}), "
            f"{good.per_s:.3g} a second, in place of {share_text(answer.as_is.good.share)}."
        )
    if answer.changed.refused:
        said += f" {answer.changed.refused} requests would be refused."
    worst = max(map(abs, answer.error.values()), default=None)
    if worst is not None:
        said += f" On the traffic of now, which it was not fitted to, the twin is off by {share_text(worst)} at most."
    if answer.forecast_class is ForecastClass.EXTRAPOLATED:
        said += f" It extrapolates: {'; '.join(answer.because)}."
    if answer.change is not None:
        said += f" {_way(answer, answer.change)}"
    return f"{said} {NO_PROOF}"


def _way(answer: WhatIf, change: ChangeOver) -> str:
    """The change itself."""
    now, then = answer.as_is.replicas, answer.changed.replicas
    if change.change_class is ChangeClass.LIVE and then <= now:
        return "The change is live: no node stops for it."
    stops = change.change_class in (ChangeClass.SWAP, ChangeClass.RESTART)
    if stops:
        begun = f"The change is a {change.change_class} of each node, one after the other"
    else:
        carry = "the one of now carries it" if now == 1 else f"the {now} of now carry it"
        begun = f"Until {then - now} more {'nodes have' if then - now > 1 else 'node has'} started, {carry}"
    if change.seconds is None or change.each_s is None:
        return f"{begun}; how long that takes nobody has measured on this pool."
    lasts, name = duration_text(change.seconds), f"{TTFT.short}:0.95"
    said = f"{begun}, {duration_text(change.each_s)} each" if stops else begun
    if (told := change.quantiles.get(name)) is not None:
        interval = f"{duration_text(told.low_s)} to {duration_text(told.high_s)}"
        said += (
            f": in these {lasts}, where most requests come, {_TOLD[name]} {duration_text(told.value_s)} ({interval})"
        )
    else:
        said += f" ({lasts})"
    if change.unserved:
        said += f"; {change.unserved} of {change.requests} requests come while no node serves"
    return f"{said}."
