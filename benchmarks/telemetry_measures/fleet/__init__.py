"""The simulated fleet: what it reports, when, and what it says it has done."""
