"""Strategies for declared sets: few names and few values, so that things meet."""

from typing import Any

from hypothesis import strategies as st

NAMES, ORIGINS = st.sampled_from("abcd"), st.sampled_from(["one.toml", "two.toml"])
CONDITIONS = st.one_of(
    st.builds(lambda s: {"kind": "drift", "for_s": s}, st.integers(0, 3)),
    st.builds(lambda q: {"kind": "regression", "q": [q]}, st.sampled_from([0.5, 0.99])),
)
RULES = st.fixed_dictionaries(
    {"name": NAMES, "origin": ORIGINS, "condition": CONDITIONS},
    optional={
        "pool": st.sampled_from(["chat", None]),
        "severity": st.sampled_from(["page", "ticket"]),
        "remedy": st.just({"cooldown_s": 60}),
        "enabled": st.booleans(),
    },
)
LABELS = st.sampled_from([{"matchers": {"pool": "chat"}}, {"patterns": {"pool": "c.*"}}, {"matchers": {"pool": "b"}}])
DESTINATIONS = st.fixed_dictionaries(
    {"name": NAMES, "origin": ORIGINS, "url": st.sampled_from(["https://a.example/x", "https://a.example/y"])},
    optional={
        "kind": st.sampled_from(["webhook", "slack"]),
        "per_minute": st.sampled_from([None, 5]),
        "enabled": st.booleans(),
        "title_template": st.just("{{ pool }}"),
        "only": st.one_of(st.none(), LABELS),
    },
)

ROUTES = st.fixed_dictionaries(
    {"name": NAMES, "origin": ORIGINS, "owner": st.sampled_from(["ada", "bo"])},
    optional={
        "matchers": st.sampled_from([{}, {"pool": "chat"}, {"pool": "chat", "severity": "page"}]),
        "group_by": st.sampled_from([[], ["pool"], ["pool", "node"]]),
        "position": st.integers(0, 2),
    },
)
INHIBIT_RULES = st.fixed_dictionaries(
    {"name": NAMES, "origin": ORIGINS, "source": LABELS, "target": LABELS},
    optional={"equal": st.sampled_from([[], ["pool"]])},
)
ENDS = st.sampled_from(["2029-12-31T00:00:00Z", "2030-01-02T00:00:00Z", "2030-01-02T03:00:00+01:00"])
SILENCES = st.builds(
    lambda labels, rest: {**labels, **rest},
    LABELS,
    st.fixed_dictionaries({"origin": ORIGINS, "ends_at": ENDS, "comment": st.sampled_from(["known", "moved"])}),
)


def of_each_name(one: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(one, max_size=4, unique_by=lambda thing: str(thing.get("name", [thing.get("matchers", 0)])))


HOOKS = st.fixed_dictionaries(
    {
        "pool": st.sampled_from(["chat", "code"]),
        "name": NAMES,
        "origin": ORIGINS,
        "kind": st.sampled_from(["event", "confirm-start"]),
        "url": st.sampled_from(["https://a.example/x", "https://a.example/y", "https://b.example/x"]),
    },
    optional={
        "secret": st.sampled_from([None, "a-signing-secret", "another-secret"]),
        "timeout_s": st.sampled_from([1, 2.5]),
        "retries": st.integers(0, 1),
        "on_silence": st.sampled_from(["hold", "roll_back"]),
    },
)
SETS = st.fixed_dictionaries(
    {
        "hooks": st.lists(HOOKS, max_size=4, unique_by=lambda hook: (str(hook["pool"]), str(hook["name"]))),
        "alert_rules": of_each_name(RULES),
        "routes": of_each_name(ROUTES),
        "inhibit_rules": of_each_name(INHIBIT_RULES),
        "silences": of_each_name(SILENCES),
        "destinations": of_each_name(DESTINATIONS),
        "prune": st.booleans(),
    }
)
