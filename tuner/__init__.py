"""The tuning worker: claims a study, replays the captured workload on a trial node, searches, reports."""
