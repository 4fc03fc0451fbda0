"""The telemetry path on one core, with Prometheus and PostgreSQL beside it; benchmarks/README.md tells more.

    python benchmarks/telemetry.py [--section sustained ...] [--nodes 4000,8000] [--minutes 10] [--kills 200] [--quick]

Prints Markdown for docs/benchmarks.md on standard output and progress on standard error. A section that fails is named
and does not end the others; the exit status is 1 then, and when a report was lost or counted twice.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from benchmarks.telemetry_measures.command import main

    sys.exit(main(__doc__))
