"""A module whose import does not end: a fork server that never gets ready."""

import signal

signal.pause()
