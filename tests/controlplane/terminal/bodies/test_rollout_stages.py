"""Stages as people write them."""

import pytest

from controlplane.contract.bodies.rollouts import Stage
from controlplane.terminal.bodies.rollout_stages import stages_of


def test_one_a_share_and_all_with_a_pause_after_any() -> None:
    assert stages_of("one, 10%,50%:pause,all") == [
        Stage(share=0),
        Stage(share=0.1),
        Stage(share=0.5, pause=True),
        Stage(share=1),
    ]


@pytest.mark.parametrize("text", ["", "half", "10", "110%", "-5%", "one,,all"])
def test_anything_else_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(ValueError, match="is no stage; write one, 10%, 50%:pause or all"):
        stages_of(text)
