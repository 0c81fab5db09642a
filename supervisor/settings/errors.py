"""What can be wrong with settings.

SettingsError
+-- InvalidSettings    a file, the environment or an override names an unknown knob or a value that is not allowed
+-- VersionConflict    somebody else changed the settings since the version that the caller has seen
+-- ApplyRefused       a process refused or did not answer; nothing was changed
"""

from __future__ import annotations

__all__ = ["ApplyRefused", "InvalidSettings", "SettingsError", "VersionConflict"]


class SettingsError(Exception):
    """Base of all errors of settings."""


class InvalidSettings(SettingsError):
    """One sentence per problem; each names the field, the value and what is allowed."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class VersionConflict(SettingsError):
    """The settings are at ``current``, not at the version that was ``expected``."""

    def __init__(self, expected: int, current: int) -> None:
        super().__init__(f"settings are at version {current}, not {expected}: read them again, then retry")
        self.expected = expected
        self.current = current


class ApplyRefused(SettingsError):
    """``peer`` did not accept the new settings, for ``reason``; no process uses them."""

    def __init__(self, peer: str, reason: str) -> None:
        super().__init__(f"nothing was changed: {peer} {reason}")
        self.peer = peer
        self.reason = reason
