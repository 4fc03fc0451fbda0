"""Whom the browser is: its session with the service, and the threads on which it is answered."""
