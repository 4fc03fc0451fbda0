"""Whether a search that begins where a pool's twin points to chooses better: on surfaces that were measured."""
