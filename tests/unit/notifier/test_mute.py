"""Quiet hours to the second, silences and what they cover, budgets."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from actors.channel_knobs import Quiet
from actors.notifier.mute import Bucket, Silence, quiet_for_s, silenced_for_s
from tests.unit.notifier.scripted import message

NIGHT = Quiet(start="22:00", end="07:00", zone="Europe/Berlin")
NOON = Quiet(start="12:00", end="13:00", zone="UTC")


@pytest.mark.parametrize(
    ("quiet", "at", "seconds"),
    [
        (NIGHT, datetime(2026, 1, 10, 21, 30, tzinfo=UTC), 8.5 * 3600),  # half past ten at night
        (NIGHT, datetime(2026, 1, 11, 5, 59, 30, tzinfo=UTC), 30),
        (NIGHT, datetime(2026, 1, 11, 6, 0, tzinfo=UTC), None),
        (NIGHT, datetime(2026, 3, 28, 21, 0, tzinfo=UTC), 8 * 3600),  # the night that loses an hour
        (NIGHT, datetime(2026, 10, 24, 20, 0, tzinfo=UTC), 10 * 3600),  # the night that has one more
        (NOON, datetime(2026, 1, 10, 12, 15, tzinfo=UTC), 45 * 60),
        (NOON, datetime(2026, 1, 10, 13, 0, tzinfo=UTC), None),
        (None, datetime(2026, 1, 10, tzinfo=UTC), None),
    ],
)
def test_quiet_hours_last_until_their_end(quiet: Quiet | None, at: datetime, seconds: float | None) -> None:
    assert quiet_for_s(quiet, at.timestamp()) == seconds


def test_silence_covers_what_matches_all_that_is_given() -> None:
    alert = message("ses_1")
    assert silenced_for_s(alert, [Silence(id=1, key="ses_1", until=10.0)], 4.0) == 6.0
    assert silenced_for_s(alert, [Silence(id=1, key="ses_1", source="other", until=10.0)], 4.0) is None
    assert silenced_for_s(alert, [Silence(id=1, until=10.0)], 10.0) is None
    longest = [Silence(id=1, until=10.0), Silence(id=2, source="x", until=20.0)]
    assert silenced_for_s(alert, longest, 4.0) == 16.0


def test_bucket_gives_a_burst_then_one_at_a_time_and_never_goes_into_debt() -> None:
    bucket = Bucket.full(2, 10.0, 0.0)
    for _ in range(5):
        bucket.take(0.0)
    assert bucket.wait_s(0.0) == 10.0
    assert bucket.wait_s(10.0) == 0.0
    assert Bucket.full(2, 10.0, 0.0).wait_s(-100.0) == 0.0
