"""Percentiles as the control plane answers them, against vLLM's own raw values of the same requests.

The load comes in bursts with silence around, so that one stretch of time holds exactly the same requests for everyone:
the raw log, the control plane's node that is fed by the plugin, its node that is fed by scraping, and Prometheus's
arithmetic on /metrics.
"""

import math
import time
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime

from benchmarks.engine_measures.report import figure, heading, note, progress, table
from benchmarks.engine_measures.stats import quantile
from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.vllm_measures import raw_values, scraped
from benchmarks.vllm_measures.knobs import BASE, give
from benchmarks.vllm_measures.plane import attached, is_up
from benchmarks.vllm_measures.session import Session
from benchmarks.vllm_measures.traffic.clients import Clients, requests
from benchmarks.vllm_measures.traffic.shapes import mixed
from controlplane.contract.metrics import WINDOW_S

QUANTILES = (0.5, 0.95, 0.99)
GOAL = 0.022
REQUESTS = (301, 101)
"""Of a burst, and with --quick: q * (n - 1) is a whole number for each q, so that all usual definitions of a quantile
agree."""
_CLIENTS, _THINK_S = 24, 0.15
_SCRAPE_S = 1.0
_SILENCE_S = 2.5
"""After a burst, until its window may end: the scraping node's last look."""
_REPORT_LIMIT_S = 20.0


@dataclass(frozen=True)
class Answer:
    """One quantile, four times; seconds. `bound`: what the scraping node says its error may be."""

    exact: float
    plugin: float
    prometheus: float
    scraping: float
    bound: float = math.nan


@dataclass(frozen=True)
class Burst:
    """Answers by (metric, q); counts by metric: in the raw log and at the control plane."""

    answers: dict[tuple[str, float], Answer]
    counted: dict[str, tuple[int, int]]


def measure(session: Session) -> None:
    heading("Percentiles against the exact raw values")
    here = session.attached
    give(session.plane, here, BASE)
    scraper = session.plane.agent(
        f"scraped-{here.node}", attached(here.server.url, None, vllm_scrape_interval_s=_SCRAPE_S)
    )
    try:
        node = scraper_node = f"scraped-{here.node}"
        try:
            session.plane.await_node(node, scraper, is_up)
        except WorkerFailed as error:
            progress(f"the scraping node: {error}")
            scraper_node = ""
        bursts = []
        for number in range(session.settings.rounds):
            bursts.append(_burst(session, scraper_node, number))
            progress(f"percentiles: burst {number + 1} of {session.settings.rounds}, worst {_worst(bursts[-1])}")
    finally:
        session.stop(scraper)
    _print(session, bursts)


def _burst(session: Session, scraper: str, number: int) -> Burst:
    here = session.attached
    count = REQUESTS[session.settings.quick]
    seed = f"{session.settings.seed}:percentiles:{number}"
    wanted = requests(session.texts.code(seed), mixed(seed, count))
    start = math.ceil(time.time() / WINDOW_S) * WINDOW_S
    time.sleep(max(0.0, start + 0.1 - time.time()))
    here.server.record(True)
    before = scraped.parse(_metrics(here.server.url))
    served = Clients(
        session.nursery, here.server.port, wanted, clients=_CLIENTS, seed=number, think_s=_THINK_S, total=count
    ).wait()
    if served.failed:
        raise WorkerFailed(f"{len(served.failed)} requests of the burst failed: {served.failed[0]}")
    since = {name: after.since(before[name]) for name, after in scraped.parse(_metrics(here.server.url)).items()}
    end = math.ceil((time.time() + _SILENCE_S) / WINDOW_S) * WINDOW_S
    time.sleep(max(0.0, end - time.time()))
    here.server.record(False)
    if not here.server.raw_log.exists():
        raise WorkerFailed(
            f"vLLM wrote no raw log; did it load the entry point? Its log ends:\n{here.server.child.log_end()}"
        )
    raw = raw_values.read(here.server.raw_log, start, end)
    expected = {name: len(values) for name, values in raw.items()}
    told = _ask(session, here.node, start, end, expected)
    by_scraping = _ask(session, scraper, start, end, expected) if scraper else {}
    answers = {}
    for name, values in raw.items():
        for q in QUANTILES:
            answers[name, q] = Answer(
                quantile(values, q),
                told[name].quantiles.get(q, math.nan),
                scraped.histogram_quantile(q, since[name]) if name in since else math.nan,
                by_scraping[name].quantiles.get(q, math.nan) if name in by_scraping else math.nan,
                by_scraping[name].bound if name in by_scraping else math.nan,
            )
    return Burst(answers, {name: (len(values), told[name].count) for name, values in raw.items()})


@dataclass(frozen=True)
class Told:
    """The control plane's answer for one metric of one node; `bound`: the largest relative error, as it says itself."""

    count: int
    quantiles: dict[float, float]
    bound: float


def _ask(session: Session, node: str, start: float, end: float, expected: dict[str, int]) -> dict[str, Told]:
    """Ask until as many values as expected are there, or the time is over: then what there is."""
    until = time.monotonic() + _REPORT_LIMIT_S
    while True:
        found = {name: _quantiles(session, node, name, start, end) for name in raw_values.METRICS}
        enough = all(found[name].count >= count for name, count in expected.items())
        if enough or time.monotonic() > until:
            return found
        time.sleep(0.5)


def _quantiles(session: Session, node: str, metric: str, start: float, end: float) -> Told:
    answer = session.plane.client.quantiles(
        metric, QUANTILES, start=datetime.fromtimestamp(start, UTC), end=datetime.fromtimestamp(end, UTC), node=node
    )
    if not answer.series:
        return Told(0, {}, math.nan)
    series = answer.series[0]
    return Told(series.count, {float(q): value for q, value in series.quantiles.items()}, series.relative_error)


def _metrics(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        text: str = answer.read().decode()
        return text


def error(told: float, exact: float) -> float:
    """Relative; NaN where one of them is missing. Two zeros agree."""
    if exact == told:
        return 0.0
    return abs(told - exact) / exact if exact else math.inf


def _worst(burst: Burst) -> str:
    key = max(burst.answers, key=lambda one: _or_infinite(error(burst.answers[one].plugin, burst.answers[one].exact)))
    answer = burst.answers[key]
    return f"{key[0]} p{100 * key[1]:g}: {_percent(error(answer.plugin, answer.exact))}"


def _or_infinite(value: float) -> float:
    return math.inf if value != value else value


def _percent(value: float) -> str:
    return "-" if value != value else f"{100 * value:.2f} %" if value < 0.1 else f"{100 * value:.0f} %"


def _print(session: Session, bursts: list[Burst]) -> None:
    count = REQUESTS[session.settings.quick]
    note(
        f"{len(bursts)} bursts of {count} requests from {_CLIENTS} clients in a closed loop (mean pause "
        f"{1000 * _THINK_S:g} ms; prompts around 64 and 400 tokens, outputs around 32), at most {BASE['max_num_seqs']} "
        "running. Exact: numpy's quantile of the values that vLLM's own statistics hold, written down by a second stat "
        "logger of the benchmark's own. Plugin: GET /api/v1/quantiles of the node whose agent has the plugin. "
        "Prometheus: histogram_quantile on the growth of /metrics over the same burst. Scraping agent: GET "
        f"/api/v1/quantiles of a node whose agent reads /metrics each {_SCRAPE_S:g} s. Errors are relative; the "
        "largest of all bursts, of Prometheus also the median."
    )
    rows = []
    worst = 0.0
    for key in bursts[0].answers:
        answers = [burst.answers[key] for burst in bursts]
        plugin = max(_or_infinite(error(one.plugin, one.exact)) for one in answers)
        worst = max(worst, plugin)
        prometheus = [error(one.prometheus, one.exact) for one in answers]
        rows.append(
            [
                key[0],
                f"p{100 * key[1]:g}",
                figure(1000 * quantile([one.exact for one in answers], 0.5)),
                f"**{_percent(plugin)}**",
                f"{_percent(quantile(prometheus, 0.5))}; {_percent(max(prometheus))}",
                _percent(max(error(one.scraping, one.exact) for one in answers)),
                _percent(max(one.bound for one in answers)),
            ]
        )
    table(["", "", "exact, ms", "plugin", "Prometheus on /metrics", "scraping agent", "its stated bound"], rows)
    missed = sum(raw - told for burst in bursts for raw, told in burst.counted.values())
    values = sum(raw for burst in bursts for raw, _ in burst.counted.values())
    verdict = "reached" if worst <= GOAL and not missed else "NOT reached"
    note(
        f"Values counted at the control plane: {values - missed} of {values}. Largest error of the plugin: "
        f"{_percent(worst)}; goal {100 * GOAL:g} %: **{verdict}**."
    )
