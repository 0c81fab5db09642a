"""The session bus's notification service (org.freedesktop.Notifications) behind four calls.

Connects on first use and again after the bus went away. Runs on the loop, never blocks it; a call can be cancelled at
any await. Deliveries come one at a time, a look may run beside one. Nothing is sent while connecting fails: the
caller learns why by ``BusUnavailable``.

    BusUnavailable   no address, nothing listens there, or the connection broke
    BusRefused       the bus works but nobody serves notifications (``answered`` False), or the service said no
"""

from __future__ import annotations

import asyncio
import html
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio.message_bus import MessageBus
from dbus_fast.errors import AuthError, InvalidAddressError

__all__ = ["BusRefused", "BusUnavailable", "Notification", "SessionBus", "session_address"]

SERVICE = "org.freedesktop.Notifications"
PATH = "/org/freedesktop/Notifications"
_URGENCY_BYTE = {"low": 0, "normal": 1, "critical": 2}
_NOBODY = ("ServiceUnknown", "NameHasNoOwner", "Spawn.")
_CONNECT_ERRORS = (OSError, EOFError, AuthError, InvalidAddressError, ValueError)
_RULES = (
    f"type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged',arg0='{SERVICE}'",
    f"type='signal',interface='{SERVICE}',member='NotificationClosed'",
    f"type='signal',interface='{SERVICE}',member='ActionInvoked'",
)


class BusUnavailable(Exception):
    """The bus cannot be reached."""


class BusRefused(Exception):
    """An error came back over the bus."""

    def __init__(self, text: str, *, answered: bool) -> None:
        super().__init__(text)
        self.answered = answered


@dataclass(frozen=True)
class Notification:
    """``body`` is plain text; it is escaped here when the service reads markup. ``expire_ms`` 0 stays, -1 default.

    ``actions``: (name, label) of buttons; left out where the service has none.
    """

    title: str
    body: str
    urgency: str
    expire_ms: int
    actions: tuple[tuple[str, str], ...] = ()


def session_address(environ: Mapping[str, str], uid: int) -> str:
    """Return the session bus's address: the variable, else systemd's user bus when its socket exists (P087)."""
    named = environ.get("DBUS_SESSION_BUS_ADDRESS", "")
    if named:
        return named
    path = Path(f"/run/user/{uid}/bus")
    if path.exists():
        return f"unix:path={path}"
    raise BusUnavailable(f"no session bus: DBUS_SESSION_BUS_ADDRESS is not set and {path} does not exist")


class SessionBus:
    """Show and dismiss notifications by key. ``address`` overrides the environment's.

    ``acted`` is called with (key or "", reference, action) when a button is used.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        acted: Callable[[str, str, str], None] = lambda _key, _reference, _action: None,
    ) -> None:
        self._address = address
        self._acted = acted
        self._owner = ""
        self._buttons = False
        self._bus: MessageBus | None = None
        self._ids: dict[str, int] = {}
        self._markup: bool | None = None
        self._connecting = asyncio.Lock()

    async def adopt(self, key: str, reference: str | None) -> None:
        """Take over what an earlier process showed for ``key``, if the service that showed it is still the same."""
        await self._connected()
        owner, _, number = (reference or "").partition(" ")
        if owner and owner == self._owner and number.isdigit():
            self._ids.setdefault(key, int(number))

    def reference(self, key: str) -> str:
        """Return what a later process needs to know of the notification of ``key``, "" without one."""
        return f"{self._owner} {self._ids[key]}" if key in self._ids else ""

    async def show(self, key: str, notification: Notification) -> None:
        """Show a notification; one that is still shown for the same non-empty key is replaced."""
        markup = await self._reads_markup()
        body = html.escape(notification.body, quote=False) if markup else notification.body
        hints = {"urgency": Variant("y", _URGENCY_BYTE[notification.urgency])}
        replaces = self._ids.get(key, 0)
        buttons = [word for action in notification.actions for word in action] if self._buttons else []
        shown = ["treewarden", replaces, "", notification.title, body, buttons, hints, notification.expire_ms]
        (number,) = await self._call("Notify", "susssasa{sv}i", shown)
        if key:
            self._ids[key] = number

    async def dismiss(self, key: str) -> None:
        """Close what is shown for ``key``, if anything; a notification that the user closed is no error."""
        number = self._ids.pop(key, None)
        if number is None:
            await self._connected()
            return
        try:
            await self._call("CloseNotification", "u", [number])
        except BusRefused as error:
            if not error.answered:
                raise

    async def capabilities(self) -> list[str]:
        """Ask the service what it can do; the cheapest proof that notifications work."""
        (found,) = await self._call("GetCapabilities", "", [])
        self._markup = "body-markup" in found
        self._buttons = "actions" in found
        return list(found)

    def disconnect(self) -> None:
        """Close the connection; the next call opens one."""
        bus, self._bus = self._bus, None
        self._forget()
        if bus is not None and bus.connected:
            bus.disconnect()

    async def _reads_markup(self) -> bool:
        await self._connected()  # a new connection forgets what the old service could do
        if self._markup is None:
            await self.capabilities()
        return bool(self._markup)

    async def _call(self, member: str, signature: str, body: list[Any]) -> list[Any]:
        message = Message(
            destination=SERVICE, path=PATH, interface=SERVICE, member=member, signature=signature, body=body
        )
        return await self._send(await self._connected(), message)

    async def _send(self, bus: MessageBus, message: Message) -> list[Any]:
        try:
            reply = await bus.call(message)
        except _CONNECT_ERRORS as error:
            self.disconnect()
            raise BusUnavailable(f"the session bus went away: {error or type(error).__name__}") from error
        if reply is None:
            raise BusUnavailable("the session bus gave no answer")
        if reply.message_type is MessageType.ERROR:
            raise _refusal(reply)
        return list(reply.body)

    async def _connected(self) -> MessageBus:
        async with self._connecting:  # a look at the channel may run beside a delivery
            if self._bus is None or not self._bus.connected:
                self.disconnect()
                self._bus = await self._connect(self._address or session_address(os.environ, os.getuid()))
            return self._bus

    async def _connect(self, address: str) -> MessageBus:
        try:
            bus = MessageBus(bus_address=address)
            await bus.connect()
        except _CONNECT_ERRORS as error:
            raise BusUnavailable(f"session bus {address} cannot be reached: {error or type(error).__name__}") from error
        try:
            bus.add_message_handler(self._hear)
            for rule in _RULES:
                await self._send(bus, _daemon("AddMatch", rule))
            self._owner = await self._owner_of(bus)
        except BaseException:
            bus.disconnect()
            raise
        return bus

    async def _owner_of(self, bus: MessageBus) -> str:
        try:
            (owner,) = await self._send(bus, _daemon("GetNameOwner", SERVICE))
        except BusRefused:
            return ""  # it is started by the first call
        return str(owner)

    def _hear(self, message: Message) -> None:
        if message.member == "NameOwnerChanged":
            self._forget()
            self._owner = str(message.body[2])
        elif message.member == "ActionInvoked" and len(message.body) == 2:
            self._pressed(*message.body)
        elif message.member == "NotificationClosed" and message.body:
            closed = message.body[0]
            self._ids = {key: number for key, number in self._ids.items() if number != closed}

    def _pressed(self, number: int, action: str) -> None:
        key = next((key for key, shown in self._ids.items() if shown == number), "")
        self._acted(key, f"{self._owner} {number}", action)

    def _forget(self) -> None:
        self._ids.clear()
        self._markup = None


def _daemon(member: str, argument: str) -> Message:
    name, path = "org.freedesktop.DBus", "/org/freedesktop/DBus"
    return Message(destination=name, path=path, interface=name, member=member, signature="s", body=[argument])


def _refusal(reply: Message) -> BusRefused:
    name = reply.error_name or ""
    said = str(reply.body[0]) if reply.body else name
    if any(token in name for token in _NOBODY):
        return BusRefused(f"the session bus has no notification service: {said}", answered=False)
    return BusRefused(f"the notification service said no: {said}", answered=True)
