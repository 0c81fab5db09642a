"""A notification service for tests: owns org.freedesktop.Notifications and appends every call as one JSON line.

Run it as ``python notification_service.py FILE`` with DBUS_SESSION_BUS_ADDRESS set; it prints ``ready`` when it owns
the name. Lines: {"call": "Notify", "id", "app", "replaces", "title", "body", "urgency", "expire_ms",
"actions"} and
{"call": "CloseNotification", "id", "known"}. FILE ``-`` means the standard output.
``--plain`` does not offer body-markup. It ends with the bus.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

from dbus_fast import DBusError, NameFlag, RequestNameReply
from dbus_fast.aio.message_bus import MessageBus
from dbus_fast.annotations import DBusDict, DBusInt32, DBusSignature, DBusStr, DBusUInt32
from dbus_fast.service import ServiceInterface, dbus_method, dbus_signal

NAME = "org.freedesktop.Notifications"
Strings = Annotated[list[str], DBusSignature("as")]
Nothing = Annotated[None, DBusSignature("")]
Closed = Annotated[tuple[int, int], DBusSignature("uu")]
Pressed = Annotated[tuple[int, str], DBusSignature("us")]
Information = Annotated[tuple[str, str, str, str], DBusSignature("ssss")]


class Notifications(ServiceInterface):
    def __init__(self, log: Path | None, capabilities: list[str]) -> None:
        super().__init__(NAME)
        self._log = log
        self._capabilities = capabilities
        self._next = 1
        self._shown: set[int] = set()

    def _append(self, **line: Any) -> None:
        if self._log is None:
            print(json.dumps(line), flush=True)
            return
        with self._log.open("a", encoding="utf8") as file:
            file.write(json.dumps(line) + "\n")

    @dbus_method()
    def GetCapabilities(self) -> Strings:
        return self._capabilities

    @dbus_method()
    def GetServerInformation(self) -> Information:
        return "notification_service", "treewarden tests", "1", "1.2"

    @dbus_method()
    def Notify(
        self,
        app: DBusStr,
        replaces: DBusUInt32,
        icon: DBusStr,
        title: DBusStr,
        body: DBusStr,
        actions: Strings,
        hints: DBusDict,
        expire_ms: DBusInt32,
    ) -> DBusUInt32:
        number = replaces or self._next
        self._next = max(self._next, number) + 1
        self._shown.add(number)
        urgency = hints["urgency"].value if "urgency" in hints else None
        self._append(
            call="Notify",
            id=number,
            app=app,
            replaces=replaces,
            title=title,
            body=body,
            urgency=urgency,
            expire_ms=expire_ms,
            actions=actions,
        )
        return number

    @dbus_method()
    def Press(self, number: DBusUInt32, action: DBusStr) -> Nothing:
        """Do what a click on a button does. Not part of the specification: tests call it."""
        self.ActionInvoked(number, action)

    @dbus_method()
    def CloseNotification(self, number: DBusUInt32) -> Nothing:
        known = number in self._shown
        self._append(call="CloseNotification", id=number, known=known)
        if not known:
            raise DBusError(f"{NAME}.Error", "")
        self._shown.discard(number)
        self.NotificationClosed(number, 3)

    @dbus_signal()
    def ActionInvoked(self, number: int, action: str) -> Pressed:
        return number, action

    @dbus_signal()
    def NotificationClosed(self, number: int, reason: int) -> Closed:
        return number, reason


async def serve(log: Path | None, capabilities: list[str]) -> None:
    bus = await MessageBus().connect()
    bus.export("/org/freedesktop/Notifications", Notifications(log, capabilities))
    reply = await bus.request_name(NAME, NameFlag.DO_NOT_QUEUE)
    if reply is not RequestNameReply.PRIMARY_OWNER:
        raise SystemExit(f"{NAME} is taken on this bus: {reply.name}")
    print("ready", flush=True)
    await bus.wait_for_disconnect()  # type: ignore[no-untyped-call]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", help="file to append to, or - for the standard output")
    parser.add_argument("--plain", action="store_true", help="do not offer body-markup")
    arguments = parser.parse_args()
    log = None if arguments.log == "-" else Path(arguments.log)
    if log is not None:
        log.touch()
    asyncio.run(serve(log, ["body"] if arguments.plain else ["body", "body-markup", "actions"]))


if __name__ == "__main__":
    main()
