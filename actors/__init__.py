"""treewarden, the application: judging, alerting and, later, recovering agents' conversation trees."""
