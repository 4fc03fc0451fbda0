"""The steps, in order of their numbers. One that has been released is never changed."""
