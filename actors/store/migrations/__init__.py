"""actors.store.migrations."""
