"""What is known of people: how long it is kept, and how it is given out or removed."""
