"""A pool declared in a file: its configuration goes out by a rollout, its policy is set."""
