"""Costs as people read them, with and without a price."""

from controlplane.contract.bodies.studies import Costs, StudyCreate, TokenCost
from controlplane.contract.planning.cost_text import cost_text, costs_text, money, saving_text

PLAIN, PRICED = StudyCreate(pool="p"), StudyCreate(pool="p", node_hour_price=2.0, currency="EUR")
DEFAULT, WINNER = TokenCost(node_s=6.2, low_s=5.5, high_s=7.1), TokenCost(node_s=4.1, low_s=3.6, high_s=None)
COSTS = Costs(default=DEFAULT, winner=WINNER, tokens_per_day=12_340_000, saved_node_h=7.2, saved_interval=(5.1, 9.3))


def test_a_cost_is_node_seconds_and_money_where_there_is_a_price() -> None:
    assert cost_text(DEFAULT, PLAIN) == "6.20 s of a node for 1,000 output tokens (5.50 s to 7.10 s)"
    assert cost_text(DEFAULT, PRICED).endswith("(5.50 s to 7.10 s), 3.44 EUR for a million (3.06 to 3.94)")
    assert cost_text(WINNER, PRICED).endswith("(3.60 s or more), 2.28 EUR for a million (2.00 or more)")


def test_what_is_saved_is_told_a_day_at_the_pools_traffic() -> None:
    assert saving_text(COSTS, PRICED) == (
        "7.2 node hours a day less (5.1 to 9.3), 14.40 EUR (10.20 to 18.60), at 12.3 million output tokens a day"
    )
    assert "EUR" not in saving_text(COSTS, PLAIN) and saving_text(Costs(default=DEFAULT), PLAIN) == ""
    told = costs_text(COSTS, PLAIN)
    assert told.startswith("it costs 4.10 s of a node") and ", the default 6.20 s of a node" in told
    assert told.endswith("; " + saving_text(COSTS, PLAIN))
    assert costs_text(Costs(default=DEFAULT), PLAIN).startswith("the default costs 6.20 s of a node")


def test_little_money_keeps_its_digits() -> None:
    assert [money(amount) for amount in (1234.5, 1.0, 0.0, 0.00123)] == ["1,234.50", "1.00", "0.00", "0.00123"]
