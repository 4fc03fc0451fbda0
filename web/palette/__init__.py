"""The palette: one field that finds pages, nodes, alerts, rollouts, studies, requests and actions by their names."""
