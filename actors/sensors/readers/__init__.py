"""actors.sensors.readers."""
