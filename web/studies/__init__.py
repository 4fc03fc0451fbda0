"""Studies: the list, one study's page, and its report, a document of its own that needs no service."""
