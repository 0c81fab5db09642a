"""A general OTP-style supervisor of processes and actors. It knows nothing of agents and never imports ``actors``."""
