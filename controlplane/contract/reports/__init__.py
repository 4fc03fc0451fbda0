"""What engines and agents report: events, packed reports, and the words in them."""
