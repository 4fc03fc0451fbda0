"""Other hardware: what a model's tokens would take on accelerators that are not there, by the sizes of both."""
