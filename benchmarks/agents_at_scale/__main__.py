"""`python -m benchmarks.agents_at_scale`."""

import sys

from benchmarks.agents_at_scale.at_scale import main

if __name__ == "__main__":
    sys.exit(main())
