"""actors.notifier."""
