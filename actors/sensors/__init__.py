"""actors.sensors."""
