"""A study from start to verdict: the trial node, the worker that runs it, finalists measured again, the report."""
