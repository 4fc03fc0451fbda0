"""Studies: the list, and one study, its search apart from what was measured again, which alone says who has won."""

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.studies import FINALIST, Study, Trial
from controlplane.contract.planning.replayed_traffic_name import traffic_words
from controlplane.contract.planning.whatif import tried_says
from controlplane.contract.reports.declared_knobs import names_in_order
from web.access.viewer import may_operate
from web.drawing.parallel_trials import Configuration, parallel_trials
from web.drawing.trial_history import Tried, trial_history
from web.frame.page import Context, Page, Part, number
from web.frame.selection import Selection
from web.studies.forecasts_beside import beside_rows
from web.studies.left_to_choose import aim_words, front_charts, front_rows
from web.studies.paired_runs import overall, pair_rows, pairs_sentence
from web.studies.remeasured import arms_of
from web.studies.time_spent import spent_says
from web.studies.trial_remarks import production_says, unsettled_says
from web.studies.what_was_searched import searched


def studies(client: Client, selection: Selection) -> Context:
    """Those of the pool and the time, where the address says one."""
    found = [study for study in client.studies() if selection.pool in (None, study.spec.pool)]
    timely = [study for study in found if selection.covers(study.created_at, study.finished_at)]
    return {"studies": timely, "may_operate": may_operate(client)}


def study(client: Client, selection: Selection) -> Context:
    found = client.study(number(selection, "study"))
    return findings(found, client.trials(found.id))


def findings(found: Study, trials: Sequence[Trial]) -> Context:
    """What the study's page and its report are drawn from."""
    trials = sorted(trials, key=lambda trial: trial.number)
    search = [trial for trial in trials if trial.kind != FINALIST]
    name = aim_words(found.spec.objectives[0])
    winner = found.result.winner if found.result and found.result.repeats else None
    pairs = pair_rows(trials, winner)
    importances = found.result.importances if found.result else {}
    return {
        "study": found,
        "spent": spent_says(found),
        "replayed": traffic_words(found.spec.workload),
        "verdict": overall(found.result, name),
        "pairs": pairs,
        "pairs_say": pairs_sentence(pairs),
        "history": trial_history([_tried(trial) for trial in search], name),
        "parallel": parallel_trials(_configurations(search, winner), name, searched(found.workload_summary).values),
        "fronts": front_charts(found, search) if found.spec.also else [],
        "front": front_rows(found),
        "aims": [aim_words(one) for one in found.spec.objectives],
        "importances": sorted(importances.items(), key=lambda one: -one[1]),
        "twin": beside_rows(found.result),
        "twin_says": tried_says(found.result.twin) if found.result else "",
        "search": search,
        "drafts": any(trial.measurement is not None and trial.measurement.drafted for trial in search),
        "production": production_says(found.workload_summary),
        "unsettled": unsettled_says(trials),
        "steps": [trial for trial in search if trial.step is not None],
        "arms": arms_of(found.result, trials),
        "winner": winner,
        "knobs": names_in_order(name for trial in trials for name in trial.knobs),
    }


def _tried(trial: Trial) -> Tried:
    return Tried(trial.number, trial.kind, trial.objective_s, trial.feasible)


def _configurations(trials: Sequence[Trial], winner: Mapping[str, Any] | None) -> list[Configuration]:
    return [
        Configuration(_tried(trial), trial.knobs, won=trial.knobs == winner) for trial in trials if trial.reported_at
    ]


def whole(client: Client, selection: Selection) -> Context:
    """Raises `NotFound` for a study that there is not."""
    return {"number": client.study(number(selection, "study")).id}


LIST = Page("studies", "/studies", "Studies", (Part("studies", studies),), key="s", any_time=True)
PAGE = Page("study", "/studies/{study}", "Study", (Part("study", study),), section="studies", bar=False, whole=whole)
