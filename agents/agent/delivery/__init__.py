"""The way up: enrolment, the spool that survives a crash, and the shipper."""
