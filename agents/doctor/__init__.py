"""The check of an installation: what is missing, and which kernels the engine has chosen here."""
