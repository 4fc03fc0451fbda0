"""What the trial node tells of a study's first trials: the recorded engine serves them, and is kept.

python -m benchmarks.tuner_measures.from_trials.first_runs --runs /tmp/first_runs.pickle

The ten defaults of `surface_forecasts` and the search's first points, of both weight formats, each on both slices of
the surface. --rate: so that this machine is about as busy as the surface's was.
"""

import argparse
import json
import pickle
from pathlib import Path

from transformers import AutoTokenizer

from agents.engine.options import BUNDLED
from benchmarks.tuner_measures.engine_grid import CORPUS_TOKENS, traffic
from benchmarks.tuner_measures.from_forecasts.surface_forecasts import defaults
from benchmarks.tuner_measures.measured_surface import EMBEDDED, full_weights, is_full, measured
from benchmarks.twin_measures.recorded_engine import RecordedEngine
from controlplane.contract.knobs import canonical_json, parse_config
from tuner.search.first_points import first_points
from tuner.workload.corpus import read_tokens

DEFAULTS = 10


def wanted() -> list[str]:
    """Configurations as JSON, full weights first: swapping them takes long."""
    knobs = defaults(DEFAULTS)
    for surface in (full_weights(), measured()):
        knobs += first_points(surface.space, surface.default)
    return sorted(dict.fromkeys(map(canonical_json, knobs)), key=lambda key: not is_full(key))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--rate", type=float, default=31.0, help="requests a second, of the engine's clock")
    given = parser.parse_args()
    made = json.loads(EMBEDDED.read_text(encoding="utf-8"))
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED)
    corpus = read_tokens(lambda text: tokenizer.encode(text, add_special_tokens=False), CORPUS_TOKENS)
    slices = [traffic(made["seed"] + place, made["requests"], given.rate, corpus) for place in (0, 1)]
    engine = RecordedEngine(BUNDLED, 64 * 2**20)
    runs = {key: [engine.serve(one, parse_config(json.loads(key))) for one in slices] for key in wanted()}
    given.runs.write_bytes(pickle.dumps((engine.shape, runs)))


if __name__ == "__main__":
    main()
