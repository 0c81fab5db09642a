"""Knobs of the channels that alerts go to: what all of them have, and what each type needs (P082, P084, P085).

No secret is a value here: a knob that ends in ``_env`` holds the name of an environment variable.
"""

from __future__ import annotations

from datetime import time
from string import Template
from typing import Annotated, Literal, Self, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from actors.messages import Severity
from actors.section import EnvName, Section, Url, env_name, knob, seconds

__all__ = [
    "AppriseChannel",
    "ChannelKnobs",
    "CommandChannel",
    "DesktopChannel",
    "EmailChannel",
    "NtfyChannel",
    "PagerdutyChannel",
    "Quiet",
    "RateLimit",
    "RingcentralChannel",
    "Setting",
    "SlackChannel",
    "TwilioChannel",
    "WebhookChannel",
]

FIELDS = frozenset({"key", "severity", "state", "title", "summary", "source", "details"})


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("must be the name of a time zone, such as Europe/Berlin or UTC") from None
    return value


def _template(value: str) -> str:
    template = Template(value)
    unknown = sorted(set(template.get_identifiers()) - FIELDS) if template.is_valid() else ["$"]
    if unknown:
        raise ValueError(f"must use only ${', $'.join(sorted(FIELDS))}; not allowed: {', '.join(unknown)}")
    return value


ChannelName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
Clock = Annotated[str, StringConstraints(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
Zone = Annotated[str, AfterValidator(_zone)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=4000), AfterValidator(_template)]
Address = Annotated[str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+$", max_length=254)]
Phone = Annotated[str, StringConstraints(pattern=r"^\+[1-9][0-9]{5,14}$")]
Word = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Detail = Literal["short", "report", "full"]


class Quiet(Section):
    """Hours in which a channel keeps silent; what is still true is said when they end."""

    start: Clock = knob(..., "first quiet minute, HH:MM")
    end: Clock = knob(..., "first minute after it, HH:MM")
    zone: Zone = knob("UTC", "time zone of both")
    critical_passes: bool = knob(True, "whether critical alerts are sent all the same")

    @property
    def span(self) -> tuple[time, time, ZoneInfo]:
        return time.fromisoformat(self.start), time.fromisoformat(self.end), ZoneInfo(self.zone)


class RateLimit(Section):
    """How many messages a channel takes; what is above comes as one digest. Critical alerts always pass."""

    burst: int = knob(20, "messages that may come at once", ge=1, le=10_000)
    every_s: float = seconds(30, "seconds until one more may come", least=0.1, most=86_400)
    digest: bool = knob(True, "whether what was held back comes as one message, else one by one")


class ChannelKnobs(Section):
    """What every channel has."""

    name: ChannelName = knob(..., "name of the channel in deliveries and commands")
    type: str = knob(..., "kind of the channel")
    enabled: bool = knob(True, "whether anything is sent")
    min_severity: Severity = knob(Severity.WARNING, "least severity that is sent (P082)")
    resolve_messages: bool = knob(True, "whether a short message says that an alert is over (P079)")
    sources: tuple[Word, ...] = knob((), "sources that are sent, such as no-progress; none is all")
    quiet: Quiet | None = knob(None, "quiet hours: start, end, zone, critical_passes")
    rate_limit: RateLimit = knob(RateLimit(), "burst, every_s, digest")
    detail: Detail = knob("short", "what of the incident is told; full names paths and targets")
    title: Text | None = knob(None, "template of the title, such as $severity: $title")
    body: Text | None = knob(None, "template of the text, such as $summary ($key)")


class DesktopChannel(ChannelKnobs):
    """Notifications on the operator's desktop over the session bus (P087, P088)."""

    name: ChannelName = knob("desktop", "name of the channel in deliveries and commands")
    type: Literal["desktop"] = knob("desktop", "kind of the channel")
    detail: Detail = knob("full", "what of the incident is told; full names paths and targets")


class WebhookChannel(ChannelKnobs):
    """JSON to a URL; signed when a secret is named."""

    type: Literal["webhook"] = knob(..., "kind of the channel")
    url: Url | None = knob(None, "where to POST")
    url_env: EnvName | None = env_name("environment variable that holds the URL, instead of url", None)
    secret_env: EnvName | None = env_name("environment variable of the key for the HMAC signature", None)
    token_env: EnvName | None = env_name("environment variable of a bearer token", None)

    @model_validator(mode="after")
    def _one_url(self) -> Self:
        return _either(self, self.url, self.url_env)


class NtfyChannel(ChannelKnobs):
    """ntfy.sh or an ntfy server of one's own."""

    type: Literal["ntfy"] = knob(..., "kind of the channel")
    url: Url | None = knob(None, "URL of the topic, such as https://ntfy.sh/mytopic")
    url_env: EnvName | None = env_name("environment variable that holds the URL, instead of url", None)
    token_env: EnvName | None = env_name("environment variable of an access token", None)

    @model_validator(mode="after")
    def _one_url(self) -> Self:
        return _either(self, self.url, self.url_env)


class SlackChannel(ChannelKnobs):
    """A Slack incoming webhook."""

    type: Literal["slack"] = knob(..., "kind of the channel")
    url_env: EnvName = env_name("environment variable of the webhook's URL")


class PagerdutyChannel(ChannelKnobs):
    """PagerDuty Events v2 (P078)."""

    type: Literal["pagerduty"] = knob(..., "kind of the channel")
    min_severity: Severity = knob(Severity.CRITICAL, "least severity that is sent (P082)")
    rate_limit: RateLimit = knob(RateLimit(digest=False), "burst, every_s, digest")
    routing_key_env: EnvName = env_name("environment variable of the integration's routing key")
    url: Url = knob("https://events.pagerduty.com", "where events go; https://events.eu.pagerduty.com in the EU")


class EmailChannel(ChannelKnobs):
    """Mail over SMTP."""

    type: Literal["email"] = knob(..., "kind of the channel")
    host: Word = knob(..., "SMTP server")
    port: int = knob(587, "its port", ge=1, le=65_535)
    security: Literal["starttls", "tls", "none"] = knob("starttls", "how the connection is protected")
    sender: Address = knob(..., "address that the mail comes from")
    to: tuple[Address, ...] = knob(..., "addresses that it goes to", min_length=1)
    user: Word | None = knob(None, "name to log in with")
    password_env: EnvName | None = env_name("environment variable of the password", None)


class CommandChannel(ChannelKnobs):
    """A program that gets the alert as JSON on its standard input; no shell."""

    type: Literal["command"] = knob(..., "kind of the channel")
    argv: tuple[Word, ...] = knob(..., "program and arguments", min_length=1)


class TwilioChannel(ChannelKnobs):
    """SMS through Twilio."""

    type: Literal["twilio"] = knob(..., "kind of the channel")
    min_severity: Severity = knob(Severity.CRITICAL, "least severity that is sent (P082)")
    account_env: EnvName = env_name("environment variable of the account SID")
    token_env: EnvName = env_name("environment variable of the auth token")
    sender: Phone = knob(..., "number that the SMS comes from, E.164")
    to: tuple[Phone, ...] = knob(..., "numbers that it goes to, E.164", min_length=1, max_length=1)
    url: Url = knob("https://api.twilio.com", "base URL of the API")


class RingcentralChannel(ChannelKnobs):
    """SMS through RingCentral."""

    type: Literal["ringcentral"] = knob(..., "kind of the channel")
    min_severity: Severity = knob(Severity.CRITICAL, "least severity that is sent (P082)")
    client_id_env: EnvName = env_name("environment variable of the app's client id")
    client_secret_env: EnvName = env_name("environment variable of the app's client secret")
    jwt_env: EnvName = env_name("environment variable of the user's JWT")
    sender: Phone = knob(..., "number that the SMS comes from, E.164")
    to: tuple[Phone, ...] = knob(..., "numbers that it goes to, E.164", min_length=1)
    url: Url = knob("https://platform.ringcentral.com", "base URL of the API")


class AppriseChannel(ChannelKnobs):
    """Any service that apprise knows: Pushover, Telegram, Discord, Matrix and others."""

    type: Literal["apprise"] = knob(..., "kind of the channel")
    url_env: EnvName = env_name("environment variable of the apprise URL")


C = TypeVar("C", bound=ChannelKnobs)


def _either(knobs: C, url: str | None, url_env: str | None) -> C:
    if (url is None) == (url_env is None):
        raise ValueError(f"channel {knobs.name}: exactly one of url and url_env must be set")
    return knobs


Setting = (
    DesktopChannel
    | WebhookChannel
    | NtfyChannel
    | SlackChannel
    | PagerdutyChannel
    | EmailChannel
    | CommandChannel
    | TwilioChannel
    | RingcentralChannel
    | AppriseChannel
)
AnyChannel = Annotated[Setting, Field(discriminator="type")]
