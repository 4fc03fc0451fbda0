"""What every subcommand shares, whoever owns it: a connection, errors in one line, missing parts, child processes."""
