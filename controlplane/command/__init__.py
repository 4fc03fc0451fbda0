"""The command line: each subcommand is a thin file that wires what it needs."""
