"""SMS through Twilio (Messages resource, 2010-04-01).

201 is queued. Only 429 says for certain that nothing was sent; there is no idempotency, so after a timeout, a broken
connection or a 5xx one more message goes out that says so, and no third.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from actors.channel_knobs import TwilioChannel
from actors.notifier.alert import Alert
from actors.notifier.channels.contract import Answer, Delivered, Failure, Retry
from actors.notifier.channels.http import Poster, judged, secret
from actors.notifier.channels.sms import short_text

if TYPE_CHECKING:
    from actors.notifier.channels.registry import Tools

__all__ = ["Twilio"]


class Twilio:
    """See the module."""

    def __init__(self, knobs: TwilioChannel, tools: Tools) -> None:
        self._account = secret(tools.environ, knobs.account_env)
        self._token = secret(tools.environ, knobs.token_env)
        self._knobs = knobs
        self._poster = Poster()

    async def deliver(self, alert: Alert, now: float) -> Answer:
        url = f"{self._knobs.url}/2010-04-01/Accounts/{self._account}/Messages.json"
        form = {"From": self._knobs.sender, "To": self._knobs.to[0], "Body": short_text(alert)}
        answer = await self._poster.send("POST", url, now, data=form, auth=(self._account, self._token))
        if not isinstance(answer, httpx.Response):
            return answer
        outcome = judged(answer, now)
        if isinstance(outcome, Retry) and outcome.reason is not Failure.THROTTLED:
            return Retry(outcome.reason, outcome.detail, outcome.after_s, ambiguous=True)
        return outcome if not isinstance(outcome, Delivered) else Delivered(str(answer.json().get("sid", "")))

    async def sight(self) -> str:
        return ""

    async def close(self) -> None:
        await self._poster.close()
