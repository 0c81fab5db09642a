"""actors.store."""
