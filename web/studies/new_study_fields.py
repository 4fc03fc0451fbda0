"""The fields of the form of a new study: how they are grouped, called and explained. Pure.

Guarantee: what a field means, and what it is where it is left empty, are the contract's own words and defaults.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.contract.bodies.knob_schema import COST, GOODPUT, GOODPUT_TOKENS, MAX_LOAD, REPLAYED
from controlplane.contract.bodies.slo import PROFILES
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.knobs import KNOBS, NUM_SPECULATIVE_TOKENS, Knob
from controlplane.contract.metrics import BY_SHORT
from controlplane.contract.planning.online_mode import OnlineMode
from controlplane.contract.planning.replayed_traffic_name import TRAFFIC_PROFILES, traffic_words
from web.frame.model_fields import ModelField, field_of_model, limit_words
from web.rollouts.declared_fields import FIELD as DECLARED
from web.rollouts.guard_fields import percent_words
from web.rollouts.proposal_fields import HOW, SCHEDULE

TITLES = {
    "objective": "Make faster",
    "objective_q": "At the quantile",
    "also": "And also",
    "also_tolerance": "Worse there by",
    "node_hour_price": "Price of a node hour",
    "constraints": "Limits",
    "max_lost_share": "Lost requests",
    "least_agreement": "Agreement",
    "most_logprob_drop": "Log-probability drop",
    "evaluation": "Evaluated by",
    "evaluation_margin": "Its score's margin",
    "suggested": "Measured first",
    "workload": "Traffic",
    "prompts": "Text of",
    "workload_s": "Traffic of the last",
    "load": "Times its rate",
    "max_trials": "Trials",
    "max_duration_s": "Time",
    "trial_requests": "Requests a trial",
    "load_replays": "Replays a trial",
    "finalist_repeats": "Pairs",
    "reason": "Why",
}
"""Fields whose names alone do not say what they are."""
DECLARED_HINT = (
    "Knobs that the trial node declares, such as block_size = 16, 32; watermark = 0 to 0.5; another = 1 to 64 log."
)
SHARES = ("max_lost_share", "least_agreement", "also_tolerance")
QUALITY = ("most_logprob_drop", "evaluation", "evaluation_margin")
WINNER = ("propose_rollout", "auto_start_rollout")
"""What is one choice in the form."""
WINNERS = {
    "": ("becomes a rollout that waits for a person", {}),
    "automatic": ("becomes a rollout that begins at once", {"auto_start_rollout": True}),
    "told": ("is told, and nothing is proposed", {"propose_rollout": False}),
}
WHERES = {
    "": "on a trial node, where the pool's traffic is replayed",
    "online": "careful in production: small steps, each judged as a canary",
}
ONLINE = {
    "online_step": ("step", "Step, times"),
    "online_taken_back": ("max_taken_back", "Steps taken back"),
    "online_days": ("hours", "Days on which steps begin"),
    "online_opens": ("hours", "From"),
    "online_closes": ("hours", "Until"),
    "online_zone": ("hours", "Time zone"),
}
"""Fields of the form for a study in production: the contract's, and how they are called."""
MODEL_FIELDS = StudyCreate.model_fields
SPACE = f"{MODEL_FIELDS['space'].description}. "
SPACE += "Bounds, such as 16 to 128 (16 to 128 log: on a logarithmic scale), or values with commas between."
OFFERED = [f"profile:{shape}@{rate}" for shape in TRAFFIC_PROFILES for rate in (1, 10)]
"""Profiles at so many requests a second; `load` scales them."""
LINES = {"constraints": 3, "also": 2, "suggested": 3}
"""Fields of several lines, by how many are shown."""


@dataclass(frozen=True)
class StudyField:
    """One field. choices: what is offered, by its value; rows: lines of a text that has several, else none."""

    name: str
    title: str
    hint: str
    choices: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0


@dataclass(frozen=True)
class Group:
    """Fields that are folded away until they are wanted. note: of all of them."""

    key: str
    title: str
    names: tuple[str, ...]
    note: str = ""


FIRST = (
    *("pool", "where", "objective", "objective_q", "also", "profile", "constraints"),
    *("max_trials", "max_duration_s", "winner", "reason"),
)
"""What matters most, always shown."""
TRAFFIC = ("workload", "prompts", "workload_s", "load", "trial_requests", "load_replays")
GROUPS = (
    Group("space", "What is searched", (*KNOBS, DECLARED, "suggested", "seed"), SPACE[:1].upper() + SPACE[1:]),
    Group("traffic", "What is replayed", TRAFFIC),
    Group("finish", "What a winner must show", (*SHARES, *QUALITY, "finalists", "finalist_repeats")),
    Group("price", "What a node costs", ("node_hour_price", "currency")),
    Group("online", "Careful in production", tuple(ONLINE), "The knobs that may move are named above."),
    Group("rollout", "How its rollout goes", HOW),
)
FIELDS = (*FIRST, *(name for group in GROUPS for name in group.names))


def study_fields() -> dict[str, StudyField]:
    """By name; those of its rollout are the rollout editor's. The pools are offered by who knows them."""
    found = {name: _of_model(name) for name in MODEL_FIELDS if name in FIELDS}
    found |= {name: StudyField(name, name, _range_hint(knob)) for name, knob in KNOBS.items()}
    found[DECLARED] = StudyField(DECLARED, "Declared by nodes", DECLARED_HINT)
    profiles = {use.value: ", ".join(map(limit_words, limits)) for use, limits in PROFILES.items()}
    offered = {"": "none: the limits below alone"}
    offered |= {use: f"{use.replace('_', ' ')}: {limits}" for use, limits in profiles.items()}
    found["profile"] = StudyField(
        "profile", "SLO profile", "Usual limits, kept beside the limits below, which go before them.", offered
    )
    said = str(MODEL_FIELDS["online"].description).partition(";")[0]
    found["where"] = StudyField("where", "Where", f"{said[:1].upper()}{said[1:]}; else trials on a trial node.", WHERES)
    found |= {name: StudyField(name, title, _online_hint(name, field)) for name, (field, title) in ONLINE.items()}
    told = ", and ".join(str(MODEL_FIELDS[name].description) for name in WINNER)
    choices = {name: words for name, (words, _) in WINNERS.items()}
    found["winner"] = StudyField("winner", "A better winner", f"{told[:1].upper()}{told[1:]}.", choices)
    return found


def _of_model(name: str) -> StudyField:
    known = field_of_model(name, MODEL_FIELDS[name], TITLES.get(name, ""))
    choices = {}
    hint = known.hint
    if name == "objective":
        first = [known.usual, *(short for short in REPLAYED if short != known.usual)]
        choices = {short: f"{short}: {BY_SHORT[short].help.rstrip('.')}" for short in first}
        choices[GOODPUT] = f"{GOODPUT}: requests a second that keep each of the limits"
        choices[GOODPUT_TOKENS] = f"{GOODPUT_TOKENS}: output tokens a second of requests that keep each of the limits"
        choices[MAX_LOAD] = f"{MAX_LOAD}: the largest load at which every limit holds"
        choices[COST] = f"{COST}: what output tokens cost at that load"
    elif name == "workload":
        choices = {"": "what the pool served"}
        choices |= {one: traffic_words(one) for one in OFFERED}
    elif name == "prompts":
        choices = {"": "the bundled text"}
    elif name == "also":
        hint = (
            "Further objectives, two at most, a line each, such as tpot p50, or goodput: what cannot be had better in "
            "one without being worse in another is left to choose among."
        )
    elif name == "suggested":
        hint = f"{MODEL_FIELDS[name].description}; a line each, such as max_num_seqs=64, quantization=int8."
        hint = hint[:1].upper() + hint[1:]
    elif usual := _usual(known):
        hint += f" Empty: {usual}."
    return StudyField(name, known.title, hint, choices, LINES.get(name, 0))


def _online_hint(name: str, field: str) -> str:
    own = {
        "online_days": "Such as mon to fri. Empty: Monday to Friday, where hours are said.",
        "online_opens": "Such as 09:00. Empty: at any time that the pool's own hours allow.",
        "online_closes": "Such as 16:30; earlier than that it opens: overnight.",
        "online_zone": "Such as Europe/London. Empty: UTC.",
    }
    of = OnlineMode.model_fields[field]
    said = str(of.description).replace("`", "")
    return own.get(name) or f"{said[:1].upper()}{said[1:]}. Empty: {of.default:g}."


def _usual(known: ModelField) -> str:
    if known.name in SHARES:
        return percent_words(float(known.usual))
    return "" if known.name in LINES else known.usual


def _range_hint(knob: Knob) -> str:
    told = SCHEDULE if knob.name == NUM_SPECULATIVE_TOKENS else knob.help.rstrip(".")
    values = f"one or more of {', '.join(knob.choices)}" if knob.choices else ""
    return f"{told}; {values or f'{knob.unit}, {knob.minimum} to {knob.maximum}'}."
