"""actors.edge."""
