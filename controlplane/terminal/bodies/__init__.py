"""What a request asks for, as options of a command: the fields of the contract's bodies."""
