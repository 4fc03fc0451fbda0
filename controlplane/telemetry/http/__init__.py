"""The routes: reports in, queries and feeds out."""
