"""Alerting: the rules that watch, each with how it is now, and the form that makes and changes one."""
