"""1,000 trees at once: bounded messages a channel, nothing critical held back, bounded memory, one channel hangs."""

from __future__ import annotations

import pytest

from tests.e2e.alert_storm import BURST, CRITICAL, EVERY_S, TREES, run_storm

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("alert_storm")]


def test_storm_is_bounded_and_every_critical_alert_comes_through() -> None:
    figures = run_storm()
    print(f"\n{figures}")
    # what the budget allows in that time, digests among it, and what always passes
    allowed = BURST + CRITICAL + figures.settled_s / EVERY_S + 1
    assert figures.webhook_messages <= allowed
    assert figures.webhook_digests >= 1
    assert TREES <= figures.told_of <= TREES + 1  # that the hanging channel is down may be told as well
    assert figures.pager_messages == CRITICAL
    assert figures.restarts == 0
    assert figures.grown_mib < 64
