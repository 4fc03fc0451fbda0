"""How nodes get into the fleet, who may take a node's name, and how often."""
