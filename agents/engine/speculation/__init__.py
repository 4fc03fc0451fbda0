"""Where drafts come from and which are kept."""
