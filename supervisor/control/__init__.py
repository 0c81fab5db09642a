"""supervisor.control."""
