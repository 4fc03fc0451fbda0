"""What one replay of a study has measured, and the load that several replays found to be carried."""

from pydantic import BaseModel, Field

TOKENS_COSTED = 1000
"""Output tokens whose cost is told."""


class Carries(BaseModel):
    """The largest load that keeps the limits, in times of the captured one, with its 95 % interval."""

    load: float = Field(ge=0, description="times the captured load; 0: the least that was tried breaks a limit")
    low: float = Field(ge=0, description="the interval's lower end")
    high: float | None = Field(
        default=None, description="the interval's upper end; null: no load was shown to be too much"
    )
    at_least: bool = Field(
        default=False, description="whether every load that was tried kept the limits: it carries that much or more"
    )


class LoadReplay(BaseModel):
    """One replay at one load."""

    load: float = Field(gt=0, description="times the captured load")
    requests: int = Field(description="requests replayed")
    violations: dict[str, float] = Field(
        description="relative excess over each limit by `metric:q`; 0 or less: held. None is told as more than 3"
    )
    ended_early: bool = Field(default=False, description="whether a limit's double could no longer be kept")


class CarriedLoad(Carries):
    """What the replays of one trial have found, by an isotonic fit of each limit's excess in the load."""

    limit: str | None = Field(default=None, description="the limit that is broken first; null: none was")
    request_s: float = Field(
        gt=0,
        description="seconds per request at that load: what such a study makes less. Where even the least load broke a "
        "limit, as if half of it were carried",
    )
    tokens_per_request: float | None = Field(
        default=None, description="output tokens a request of the replayed traffic, on average; null: not told"
    )
    replays: list[LoadReplay] = Field(description="in their order")

    @property
    def cost_s(self) -> float | None:
        """Node seconds for 1,000 output tokens at that load; None where nobody told the tokens."""
        return TOKENS_COSTED * self.request_s / self.tokens_per_request if self.tokens_per_request else None


class Measurement(BaseModel):
    """One replay under one configuration. Quantiles in seconds, keyed "metric:q" as in "ttft:0.95"."""

    requests: int = Field(description="requests replayed")
    errors: int = Field(description="requests that failed")
    duration_s: float = Field(description="seconds it took")
    quantiles: dict[str, float] = Field(description="seconds by `metric:q`, as in `ttft:0.95`")
    output_tokens_per_s: float = Field(description="tokens generated in a second")
    good: int | None = Field(
        default=None, description="requests that kept every constraint; null where none says what is good"
    )
    good_tokens: int | None = Field(
        default=None, description="output tokens of those requests; null where none says what is good"
    )
    span_s: float | None = Field(
        default=None, description="seconds from the first request's time to the last one's; null where nobody kept it"
    )
    carried: CarriedLoad | None = Field(
        default=None,
        description="the largest load within the limits, where the study seeks that; all else is then of the replay at "
        "the largest load that was not above it or, where another objective is measured at the captured load, of the "
        "replay at that",
    )

    lead_in: int = Field(
        default=0,
        description="requests that were replayed ahead of these, at the times at which they came, and count nowhere",
    )
    settled_after: int | None = Field(
        default=None,
        description="requests of the replay, those ahead with them, after which the number under way had settled "
        "(MSER-5); null: it had not, or there were too few to tell",
    )
    grew: bool = Field(
        default=False,
        description="whether more and more requests were under way up to the replay's end: it never settled, and a "
        "longer one would give other figures",
    )
    drafted: int | None = Field(default=None, description="draft tokens of the replay; null: its engine tells none")
    accepted: int | None = Field(default=None, description="those of them that were accepted")

    @property
    def unsettled(self) -> str:
        """Why its figures may be those of an engine that was only getting busy; empty where they are not."""
        sent = self.lead_in + self.requests
        if self.grew:
            return f"more and more requests were under way up to the end of {sent}: it never settled"
        if self.settled_after is not None and self.settled_after > self.lead_in:
            counted = self.settled_after - self.lead_in
            return f"settled after {self.settled_after} of {sent} requests, {counted} of them counted"
        return ""

    @property
    def acceptance(self) -> float | None:
        """The share of draft tokens that was accepted; None without any."""
        return None if not self.drafted or self.accepted is None else self.accepted / self.drafted

    @property
    def replayed(self) -> int:
        """Requests of all its replays, without those ahead of them."""
        return self.requests if self.carried is None else sum(one.requests for one in self.carried.replays)

    @property
    def good_s(self) -> float | None:
        """Seconds per good request: one over goodput. Of the time in which requests came, so that it is the same for
        all configurations that keep up; without a good one as if half of one were, for the search to have a figure."""
        if self.good is None or not self.span_s:
            return None
        return self.span_s / max(self.good, 0.5)

    @property
    def good_token_s(self) -> float | None:
        """Seconds per output token of good requests. Without a good one as if half a request of usual length were."""
        if self.good_tokens is None or not self.span_s:
            return None
        usual = self.output_tokens_per_s * self.duration_s / max(1, self.requests)
        return self.span_s / max(self.good_tokens, 0.5 * usual, 0.5)
