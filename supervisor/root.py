"""The root process: ``python -m supervisor.root --plan PATH`` or ``--plan-fd N`` runs a supervision tree from a plan.

It imports the standard library, sdnotify and ``supervisor`` only, owns nothing it could lose, and never blocks on a
child. Children start in order and stop in reverse; no process outlives it. Exit codes: 0 after a clean stop, 1 when it
gave up or was told to stop again, 5 for a plan that is not valid, 6 when a directory, socket or port is taken. SIGTERM
and SIGINT stop it, more than a second later they kill; so does SIGHUP when its terminal is gone or nobody reloads
settings, else SIGHUP is a reload.

The plan's format is documented in ``supervisor.plan``.

Served on the bus as peer ``root``: Ready {child, pid}; Ending {child, pid, ending, reason} (supervisor.child); Restart
{child} and RestartRolling (supervisor.operations); Children -> {children: [{id, pid, state:
starting|ready|backoff|stopped, restarts, last_exit, supervisor, slow}], sockets: {name: address}, pid, since, state:
starting|running|stopping}; Reports {after?, wait_s?} -> {reports, last, deaths, since}, waits for a newer one;
SettingsRendered (the new blob) -> null; Reload {uid, note} -> what the child answers; Headline {child, text} -> null,
words of the application for `systemctl status`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import faulthandler
import logging
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from supervisor import linux, logs, runtime
from supervisor.afresh import AGAIN, Afresh
from supervisor.banner import banner_lines
from supervisor.bus.endpoint import Endpoint
from supervisor.events import Boot, Down, Event, Forget, GiveUp, Halt, Reply, Report, SetTimer, Start, Stop, Timer, Up
from supervisor.footing import Footing
from supervisor.headline import Headline, away, status_line
from supervisor.launcher import Launcher
from supervisor.listeners import Listener, bind_all, clear_bus
from supervisor.logtail import LogSink, LogStream
from supervisor.office import Office
from supervisor.operations import Operations
from supervisor.plan import Plan, read
from supervisor.processes import Outfit, Processes
from supervisor.reload import Reloader
from supervisor.reports import CrashReport, Reports
from supervisor.runtime import Conflict, Pids
from supervisor.signals import Signals
from supervisor.spec import SpecError
from supervisor.systemd import Systemd
from supervisor.tree import Tree
from supervisor.watchdog import Watchdog

__all__ = ["EXIT_CONFLICT", "EXIT_INVALID", "Root", "main"]

EXIT_INVALID = 5
EXIT_CONFLICT = 6
_RUNTIME = ("supervisor.child", "uvloop")
_log = logging.getLogger("supervisor.root")


class Root:
    """Wires the core to processes, bus and systemd. Construct it inside the event loop."""

    def __init__(
        self, plan: Plan, systemd: Systemd, listeners: dict[str, Listener], sink: LogSink, afresh: Afresh
    ) -> None:
        self.afresh = afresh
        self.plan = plan
        self.systemd = systemd
        self.listeners = listeners
        self.reports = Reports()
        self.since = time.time()
        self.tree = Tree(plan.supervisor, jitter=random.random, essential=plan.essential, give_up_s=plan.give_up_s)
        self.endpoint = Endpoint("root", plan.runtime_dir / runtime.BUS_DIRECTORY)
        self.outfit = Outfit(plan.runtime_dir, plan.state_dir, plan.settings, _sockets(listeners))
        self.launcher = Launcher([*_RUNTIME, *plan.preload])
        self.processes = Processes(
            {spec.id: spec for spec in plan.supervisor.workers()},
            launcher=self.launcher,
            endpoint=self.endpoint,
            outfit=self.outfit,
            sink=sink,
            emit=self.feed,
            changed=self._changed,
        )
        self.operations = Operations(self.tree, self.feed, self.processes.pid)
        self.state = "starting"
        self.headline = Headline()
        self.reloader = Reloader(self)
        self.watchdog = Watchdog(systemd, self.tree, self.processes)
        self._signals = Signals(self)
        self._pids = Pids(plan.runtime_dir)
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[int] = self._loop.create_future()
        self._code = 0
        self._perform: dict[type, Callable[[Any], object]] = {
            Start: self.processes.start,
            Stop: self.processes.stop,
            SetTimer: lambda c: self._loop.call_later(c.after_s, self.feed, Timer(c.key)),
            Report: self._on_report,
            Forget: self.processes.forget,
            Reply: self.operations.answered,
            Up: lambda _c: None,
            Down: self._on_down,
            GiveUp: self._on_give_up,
        }

    async def run(self) -> int:
        """Start everything, run until told to stop or given up, stop everything; return the exit code."""
        Office(self).register(self.endpoint)
        self.operations.register(self.endpoint)
        self.endpoint.on("Reload", self.reloader.on_message)
        self.endpoint.on("Headline", self._on_headline)
        await self.endpoint.start()
        self._signals.watch()
        self.launcher.start()
        self.systemd.status("starting")
        self.feed(Boot())
        beside = [self._loop.create_task(work) for work in (self.watchdog.run(), Footing(self).run())]
        try:
            return await self._over
        finally:
            for task in beside:
                task.cancel()
            self.afresh.settings = self.outfit.settings
            await self._clean_up()

    def feed(self, event: Event) -> None:
        """Give the core an event and perform what it commands; after the end nothing is begun any more."""
        if self._over.done():
            return
        for command in self.tree.handle(event, self._loop.time()):
            self._perform[type(command)](command)
        self._show()

    def halt(self, code: int = 0) -> None:
        """Stop everything in reverse order; a stop that is under way goes on, and is the last one."""
        if self.state == "stopping":
            self._code = code if self._code == AGAIN else self._code
            return
        self.state = "stopping"
        self._code = code
        if code != AGAIN:
            self.systemd.stopping("stopping")
        self.feed(Halt())

    # What the core commands

    def _on_report(self, report: Report) -> None:
        pid, tail = self.processes.last_run(report.offender)
        crash = CrashReport(time.time(), report.supervisor, report.context, report.reason, report.offender, pid, tail)
        self.reports.add(crash)
        _log.error("%s", crash.sentence())

    def _on_give_up(self, command: GiveUp) -> None:
        _log.critical("giving up: %s", command.reason)
        if self.state != "stopping":
            self.halt(code=1)

    def _on_down(self, command: Down) -> None:
        if self.state != "stopping":
            _log.critical("the supervision tree went down: %s", command.reason)
            self._code = 1
        self._end(self._code)

    def kill(self) -> None:
        """Kill everything at once."""
        _log.warning("told to stop again: killing everything")
        self.processes.kill_all()
        self._end(1)

    def _end(self, code: int) -> None:
        if not self._over.done():
            self._over.set_result(code)

    # What root shows

    def _show(self) -> None:
        if self.state == "stopping":
            return
        if self.state == "starting" and not away(self.tree.standings()):
            self.state = "running"
            self._announce()
        self.systemd.status(self.status())

    def status(self) -> str:
        """Return the line for `systemctl status`."""
        standings = self.tree.standings()
        said = self.headline.text(standings)
        return status_line(standings, len(self.processes.specs), said, self.reloader.problem)

    async def _on_headline(self, body: bytes) -> bytes:
        self.headline.set(body)
        self._show()
        return b"null"

    def _announce(self) -> None:
        with contextlib.suppress(OSError):  # nobody reads stdout: no reason not to serve
            print(*banner_lines(self.plan, self.listeners), sep="\n", flush=True)  # noqa: T201 - for the person who ran it
        self.systemd.ready(self.status())
        self.reloader.started()

    def _changed(self) -> None:
        self._pids.write(self.processes.living())
        self.processes.sweep()

    # Begin and end

    async def _clean_up(self) -> None:
        self.processes.kill_all()
        self.launcher.close()
        await self.endpoint.stop()
        for listener in self.listeners.values():
            if self._code != AGAIN or not listener.stays:
                listener.close()
        self._pids.write({})


def _sockets(listeners: dict[str, Listener]) -> dict[str, dict[str, Any]]:
    sockets: dict[str, dict[str, Any]] = {}
    for name, listener in listeners.items():
        for child in listener.listen.for_children:
            sockets.setdefault(child, {})[name] = listener.socket
    return sockets


def main(argv: list[str] | None = None) -> int:
    """Run a root; return the exit code."""
    logs.configure("root")
    try:
        text = _plan_text(argv)
        plan = read(text)
        return _run(plan, text)
    except (SpecError, OSError) as error:
        sys.stderr.write(f"supervisor: {error}\n")
        return EXIT_INVALID
    except Conflict as error:
        sys.stderr.write(f"{plan.name}: {error}\n")
        return EXIT_CONFLICT


def _run(plan: Plan, text: str) -> int:
    faulthandler.enable()  # systemd's watchdog ends a hung root with SIGABRT: the log then says where it hung
    systemd = Systemd()
    afresh = Afresh(text, systemd)
    runtime.make_private(plan.runtime_dir)
    held = [runtime.lock(plan.runtime_dir, plan.name)]
    plan.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if plan.state_dir.resolve() != plan.runtime_dir.resolve():
        # two roots over one database would undo each other's work and say everything twice
        held.append(runtime.lock(plan.state_dir, plan.name, "state directory"))
    for leftover in Pids(plan.runtime_dir).kill_leftovers():
        _log.warning("killed %s, left over by an earlier root", leftover)
    clear_bus(plan.runtime_dir / runtime.BUS_DIRECTORY)
    listeners = bind_all(plan.listen, plan.runtime_dir, systemd.adopt())
    linux.become_subreaper()
    linux.name_process(f"{plan.name}-root")
    try:
        code = asyncio.run(_life(plan, systemd, listeners, afresh))
        if code == AGAIN:
            afresh.start_over(listeners)
        return code
    finally:
        for lock in held:
            os.close(lock)


async def _life(plan: Plan, systemd: Systemd, listeners: dict[str, Listener], afresh: Afresh) -> int:
    sink = LogSink()
    handler = logging.getLogger().handlers[0]
    assert isinstance(handler, logging.StreamHandler)
    before = handler.setStream(LogStream(sink))
    try:
        return await Root(plan, systemd, listeners, sink, afresh).run()
    finally:
        sink.flush()
        handler.setStream(before)


def _plan_text(argv: list[str] | None) -> str:
    parser = argparse.ArgumentParser(prog="python -m supervisor.root", description="Run a supervision tree.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--plan", type=Path, help="file that holds the plan")
    source.add_argument("--plan-fd", type=int, help="open descriptor from which the plan is read")
    arguments = parser.parse_args(argv)
    with open(arguments.plan if arguments.plan is not None else arguments.plan_fd, encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    sys.exit(main())
