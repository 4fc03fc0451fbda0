"""Whose drafts give fewer of the tokens: from what two real vLLM engines told, and from counts made for it.

Recorded are deliveries and tokens of 20 seconds each, 240 before the fault and 80 after it: where all requests' answers
stop repeating what was said (`drafts` of seed 92500003 of `named_first --engines vllm`), and where those of gpu-2 do
(`node_drafts`, seed 7).
"""

from collections.abc import Sequence

import numpy as np
import pytest

from controlplane.alerts.diagnosis.counted_ratio import Level
from controlplane.alerts.diagnosis.draft_causes import Deliveries, DraftGroup, Drafts, draft_causes, draft_groups

USUAL = 12
NODES, BUCKETS = ("gpu-1", "gpu-2"), ("<=128", "<=2k", "<=512")
EVERYWHERE = {
    "gpu-1": (
        [401, 330, 115, 339, 341, 333, 480, 251, 247, 147, 219, 390, 711, 753, 799, 701],
        [820, 714, 229, 680, 631, 650, 988, 482, 552, 358, 624, 789, 809, 836, 873, 752],
    ),
    "gpu-2": (
        [274, 281, 255, 313, 363, 373, 353, 356, 406, 197, 240, 258, 568, 722, 633, 660],
        [567, 576, 494, 536, 734, 788, 792, 744, 923, 470, 603, 418, 630, 777, 685, 717],
    ),
    "<=128": (
        [316, 380, 96, 344, 358, 374, 397, 378, 205, 125, 163, 330, 308, 407, 534, 413],
        [461, 707, 120, 583, 473, 696, 595, 605, 358, 199, 308, 507, 350, 418, 550, 429],
    ),
    "<=2k": (
        [36, 76, 92, 42, 34, 44, 23, 29, 0, 54, 27, 114, 131, 69, 151, 130],
        [121, 151, 188, 142, 113, 148, 73, 63, 0, 149, 94, 250, 156, 76, 169, 144],
    ),
    "<=512": (
        [323, 155, 182, 266, 312, 288, 413, 200, 448, 165, 269, 204, 840, 999, 747, 818],
        [805, 432, 415, 491, 779, 594, 1112, 558, 1117, 480, 825, 450, 933, 1119, 839, 896],
    ),
}
AT_GPU_2 = {
    "gpu-1": (
        [401, 330, 115, 339, 341, 333, 480, 251, 247, 409, 266, 313, 301, 225, 344, 224],
        [820, 714, 229, 680, 631, 650, 988, 482, 552, 877, 610, 764, 683, 579, 777, 500],
    ),
    "gpu-2": (
        [274, 281, 255, 313, 363, 373, 353, 356, 406, 314, 296, 368, 577, 613, 448, 383],
        [567, 576, 494, 536, 734, 788, 792, 744, 923, 709, 562, 721, 623, 671, 474, 403],
    ),
    "<=128": (
        [316, 380, 96, 344, 358, 374, 397, 378, 205, 387, 213, 401, 231, 300, 312, 263],
        [461, 707, 120, 583, 473, 696, 595, 605, 358, 722, 345, 749, 251, 404, 485, 325],
    ),
    "<=2k": (
        [36, 76, 92, 42, 34, 44, 23, 29, 0, 30, 107, 3, 0, 39, 68, 35],
        [121, 151, 188, 142, 113, 148, 73, 63, 0, 94, 374, 7, 0, 92, 121, 41],
    ),
    "<=512": (
        [323, 155, 182, 266, 312, 288, 413, 200, 448, 306, 242, 277, 647, 499, 412, 309],
        [805, 432, 415, 491, 779, 594, 1112, 558, 1117, 770, 453, 729, 1055, 754, 645, 537],
    ),
}
Told = dict[str, tuple[list[int], list[int]]]


def groups(told: Told, label: str, values: Sequence[str], usual: int = USUAL) -> list[DraftGroup]:
    count, tokens = (np.array([told[value][side] for value in values], dtype=float) for side in (0, 1))
    return draft_groups(Deliveries(label, values, count, tokens, usual))


def recorded(told: Told) -> Drafts:
    return Drafts(groups=[*groups(told, "node", NODES), *groups(told, "prompt_bucket", BUCKETS)])


def even(*given: tuple[float, float], tokens: int = 1000, windows: int = 120) -> Drafts:
    """Nodes of whose tokens drafts gave so much before and after; as many windows on both sides."""
    told: Told = {}
    for place, (then, now) in enumerate(given):
        count = [round(tokens * (1.0 - then))] * windows + [round(tokens * (1.0 - now))] * windows
        told[f"n{place}"] = count, [tokens] * (2 * windows)
    return Drafts(groups=groups(told, "node", list(told), windows))


class TestWhose:
    def test_where_all_lose_no_group_is_told_and_each_shares_it(self) -> None:
        drafts = recorded(EVERYWHERE)
        assert drafts.apart is None
        assert all(drafts.is_shared("node", node) for node in NODES)
        assert all(drafts.is_shared("prompt_bucket", bucket) for bucket in BUCKETS)
        assert not drafts.is_shared("tenant", "web")  # Nothing is known of it.

    def test_the_node_is_told_that_loses_alone(self) -> None:
        drafts = recorded(AT_GPU_2)
        assert drafts.apart is not None and (drafts.apart.label, drafts.apart.value) == ("node", "gpu-2")
        assert not drafts.is_shared("node", "gpu-2")
        own, others = drafts.apart.own, drafts.apart.others
        assert own.before == pytest.approx(0.497, abs=0.001) and own.during == pytest.approx(0.069, abs=0.001)
        assert others is not None and others.during == pytest.approx(0.569, abs=0.001)

    def test_a_loss_that_the_others_share_by_more_than_six_tenths_is_not_told(self) -> None:
        assert even((0.5, 0.2), (0.5, 0.35), (0.5, 0.35)).apart is not None  # 60 % lost, and 30 %.
        assert even((0.5, 0.2), (0.5, 0.3), (0.5, 0.3)).apart is None  # And 40 %.

    def test_a_token_takes_a_quarter_more_steps_at_least(self) -> None:
        assert even((0.4, 0.26), (0.4, 0.4)).apart is None
        assert even((0.4, 0.24), (0.4, 0.4)).apart is not None

    def test_who_had_nothing_has_nothing_to_lose(self) -> None:
        """Of prompts that were given none nobody can say that they kept it."""
        drafts = even((0.5, 0.1), (0.0, 0.0))
        assert drafts.apart is None and not drafts.is_shared("node", "n0")

    def test_an_onset_that_is_told_minutes_late_hides_no_node(self) -> None:
        """Seats fill for three minutes before an objective is missed."""
        chance = np.random.default_rng(6)
        usual, late = 120, 38
        lost = 1000 - chance.binomial(1000, [0.5] * (usual - late) + [0.02] * (late + 12))
        kept = 1000 - chance.binomial(1000, [0.5] * (usual + 12))
        told = {name: (count.tolist(), [1000] * len(count)) for name, count in (("a", lost), ("b", kept))}
        apart = Drafts(groups=groups(told, "node", "ab", usual)).apart
        assert apart is not None and apart.value == "a" and apart.own.before == pytest.approx(0.5, abs=0.01)

    def test_of_a_few_tokens_nothing_is_told(self) -> None:
        assert even((0.5, 0.1), (0.5, 0.5), tokens=10, windows=9).groups == []
        assert even((0.5, 0.2), (0.5, 0.5), tokens=10, windows=12).apart is None
        assert even((0.5, 0.2), (0.5, 0.5), tokens=100, windows=12).apart is not None

    def test_of_many_groups_more_is_wanted(self) -> None:
        """As many as there are may stand out by chance."""
        one = Level(0.5, 0.2, 0.13)
        two = DraftGroup("node", "a", one, Level(0.5, 0.5, 0.13)), DraftGroup("node", "b", one, None)
        assert two[0].sigmas == pytest.approx(0.6 / (0.26 * 2**0.5))  # 1.6
        surer = DraftGroup("node", "a", Level(0.5, 0.2, 0.06), Level(0.5, 0.5, 0.07))  # 3.25
        assert Drafts(groups=[surer]).apart is surer
        assert Drafts(groups=[surer, *[two[1]] * 9]).apart is None


class TestCause:
    def test_one_node_of_many_is_told_where_the_pool_as_a_whole_hardly_changed(self) -> None:
        drafts = even((0.5, 0.1), *[(0.5, 0.5)] * 7)
        (cause,) = draft_causes(drafts, has_room=True)
        assert (cause["cause"], cause["node"], cause["steps_growth"]) == ("acceptance", "n0", 1.8)
        assert cause["message"] == "drafts gave node n0 10 % of its tokens, 50 % before, and 50 % of the others'"

    def test_a_node_whose_steps_got_longer_by_more_has_less_room_for_drafts(self) -> None:
        slow = Drafts(groups=even((0.5, 0.1), (0.5, 0.5)).groups, gap_growth=2.0)
        assert draft_causes(slow, has_room=True) == []
        assert draft_causes(even((0.5, 0.1), (0.5, 0.5)), has_room=False) == []

    def test_where_the_pool_as_a_whole_lost_it_is_told_with_the_node(self) -> None:
        of_pool = even((0.5, 0.1), (0.5, 0.5))
        drafts = Drafts(Level(0.8, 0.4), Level(0.5, 0.3), of_pool.groups, gap_growth=2.0)
        (cause,) = draft_causes(drafts, has_room=False)
        assert cause["node"] == "n0" and cause["acceptance"] == [0.8, 0.4] and cause["steps_growth"] == 1.8
        assert cause["message"].endswith("; of the draft tokens 40 % were accepted, 80 % before")

    def test_of_a_hundred_drafts_fifteen_fewer_are_accepted_at_least(self) -> None:
        (cause,) = draft_causes(Drafts(Level(0.8, 0.64)), has_room=False)
        assert cause["message"] == "of the draft tokens 64 % were accepted, 80 % before"
        assert (cause["acceptance"], cause["from_drafts"]) == ([0.8, 0.64], [None, None])
        assert draft_causes(Drafts(Level(0.8, 0.66)), has_room=False) == []
        assert draft_causes(Drafts(), has_room=True) == [], "nothing was measured"

    def test_drafts_that_give_everybody_less_are_told_where_they_have_room(self) -> None:
        """A quarter more steps: of half of the tokens to three eighths."""
        (cause,) = draft_causes(Drafts(given=Level(0.5, 0.37)), has_room=True)
        assert cause["message"] == "drafts gave 37 % of the tokens, 50 % before" and "node" not in cause
        assert cause["steps_growth"] == 1.26
        assert draft_causes(Drafts(given=Level(0.5, 0.38)), has_room=True) == []
        assert draft_causes(Drafts(given=Level(0.5, 0.1)), has_room=False) == []

    def test_a_tenant_is_no_node(self) -> None:
        (one,) = (group for group in even((0.5, 0.1), (0.5, 0.5)).groups if group.value == "n0")
        tenant = DraftGroup("tenant", "web", one.own, one.others)
        (cause,) = draft_causes(Drafts(groups=[tenant]), has_room=True)
        assert "node" not in cause and "drafts gave tenant web 10 %" in cause["message"]
