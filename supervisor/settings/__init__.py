"""supervisor.settings."""
