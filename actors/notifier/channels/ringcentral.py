"""SMS through RingCentral: an access token for the user's JWT (RFC 7523), then the extension's sms resource.

429 has Retry-After (40 messages a minute); 401 means that the token ran out and is mended once; 5xx come again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from actors.channel_knobs import RingcentralChannel
from actors.notifier.alert import Alert
from actors.notifier.channels.contract import Answer, Failure, Rejected
from actors.notifier.channels.http import Poster, judged, secret
from actors.notifier.channels.sms import short_text

if TYPE_CHECKING:
    from actors.notifier.channels.registry import Tools

__all__ = ["Ringcentral"]

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
SMS = "/restapi/v1.0/account/~/extension/~/sms"


class Ringcentral:
    """See the module."""

    def __init__(self, knobs: RingcentralChannel, tools: Tools) -> None:
        self._knobs = knobs
        self._client = (secret(tools.environ, knobs.client_id_env), secret(tools.environ, knobs.client_secret_env))
        self._jwt = secret(tools.environ, knobs.jwt_env)
        self._token = ""
        self._poster = Poster()

    async def deliver(self, alert: Alert, now: float) -> Answer:
        if not self._token:
            refused = await self._log_in(now)
            if refused is not None:
                return refused
        answer = await self._send(alert, now)
        if isinstance(answer, httpx.Response) and answer.status_code == 401:
            self._token = ""
            refused = await self._log_in(now)
            answer = await self._send(alert, now) if refused is None else refused
        return judged(answer, now) if isinstance(answer, httpx.Response) else answer

    async def _send(self, alert: Alert, now: float) -> httpx.Response | Answer:
        body = {
            "from": {"phoneNumber": self._knobs.sender},
            "to": [{"phoneNumber": number} for number in self._knobs.to],
            "text": short_text(alert),
        }
        headers = {"Authorization": f"Bearer {self._token}"}
        return await self._poster.send("POST", self._knobs.url + SMS, now, json=body, headers=headers)

    async def _log_in(self, now: float) -> Answer | None:
        """Get a token; return what is wrong. No message has been sent, so nothing here is ambiguous."""
        form = {"grant_type": GRANT, "assertion": self._jwt}
        url = f"{self._knobs.url}/restapi/oauth/token"
        answer = await self._poster.send("POST", url, now, data=form, auth=self._client)
        if not isinstance(answer, httpx.Response):
            return answer
        if not answer.is_success:
            return judged(answer, now)
        self._token = str(answer.json().get("access_token", ""))
        return None if self._token else Rejected(Failure.REFUSED, "RingCentral gave no access token")

    async def sight(self) -> str:
        return ""

    async def close(self) -> None:
        await self._poster.close()
