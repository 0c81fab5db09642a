"""Settings of every channel, for servers on loopback; the port 9 of NOWHERE has nobody."""

from __future__ import annotations

from actors.channel_knobs import (
    AppriseChannel,
    CommandChannel,
    DesktopChannel,
    EmailChannel,
    NtfyChannel,
    PagerdutyChannel,
    RingcentralChannel,
    Setting,
    SlackChannel,
    TwilioChannel,
    WebhookChannel,
)

__all__ = ["NOWHERE", "SETTINGS", "settings_at"]

NOWHERE = {
    "SLACK_URL": "http://127.0.0.1:9/services/T0/B0/secret-slack",
    "HOOK_KEY": "secret-hook-key",
    "NTFY_TOKEN": "tk_secretntfy",
    "ROUTING_KEY": "R" * 32,
    "TWILIO_SID": "AC" + "0" * 32,
    "TWILIO_TOKEN": "secret-twilio",
    "RC_ID": "secret-rc-id",
    "RC_SECRET": "secret-rc",
    "RC_JWT": "secret-jwt",
    "APPRISE_URL": "json://127.0.0.1:9/secret-apprise",
    "MAIL_PASSWORD": "secret-mail",
}


def settings_at(url: str, smtp_port: int = 9) -> dict[str, Setting]:
    """Return one setting of every type, by type, for a server at ``url``."""
    return {
        "desktop": DesktopChannel(),
        "webhook": WebhookChannel(name="hook", type="webhook", url=f"{url}/hook", secret_env="HOOK_KEY"),
        "ntfy": NtfyChannel(name="ntfy", type="ntfy", url=f"{url}/topic", token_env="NTFY_TOKEN"),
        "slack": SlackChannel(name="slack", type="slack", url_env="SLACK_URL"),
        "pagerduty": PagerdutyChannel(name="pager", type="pagerduty", routing_key_env="ROUTING_KEY", url=url),
        "email": EmailChannel(
            name="mail",
            type="email",
            host="127.0.0.1",
            port=smtp_port,
            security="none",
            sender="treewarden@example.org",
            to=("operator@example.org",),
            password_env="MAIL_PASSWORD",
        ),
        "command": CommandChannel(name="program", type="command", argv=("treewarden-no-such-program",)),
        "twilio": TwilioChannel(
            name="sms",
            type="twilio",
            account_env="TWILIO_SID",
            token_env="TWILIO_TOKEN",
            sender="+15005550006",
            to=("+15005550009",),
            url=url,
        ),
        "ringcentral": RingcentralChannel(
            name="rc",
            type="ringcentral",
            client_id_env="RC_ID",
            client_secret_env="RC_SECRET",
            jwt_env="RC_JWT",
            sender="+15005550006",
            to=("+15005550009",),
            url=url,
        ),
        "apprise": AppriseChannel(name="more", type="apprise", url_env="APPRISE_URL"),
    }


SETTINGS = settings_at("http://127.0.0.1:9")
