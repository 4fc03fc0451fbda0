"""Where drafts come from: the drafters behind one seam, and who decides how many."""
