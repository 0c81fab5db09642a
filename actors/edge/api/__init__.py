"""actors.edge.api."""
