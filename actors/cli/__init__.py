"""actors.cli."""
