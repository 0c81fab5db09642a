"""actors.tree.rules."""
