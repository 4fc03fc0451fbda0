"""What Tailwright does when everything goes wrong: fuzzing, kills, a week in compressed time, TLS.

    python benchmarks/chaos.py fuzz --requests 100000 --seed 1 [--only SURFACE[:NUMBER]] [--out FILE.json]
    python benchmarks/chaos.py kills --kills 200 --seed 1 [--database sqlite|postgresql]
    python benchmarks/chaos.py week [--nodes 100] [--days 7] [--interval-s 60]
    python benchmarks/chaos.py tls [--nodes 4000] [--seconds 120] [--interval-s 20]

Prints Markdown for docs/benchmarks.md on standard output, progress on standard error. Status 1 when a fault was found.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from benchmarks.chaos_measures.command import main

    sys.exit(main(__doc__))
