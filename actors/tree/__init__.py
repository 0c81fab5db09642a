"""actors.tree."""
