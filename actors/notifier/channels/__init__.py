"""actors.notifier.channels."""
