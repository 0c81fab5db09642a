"""One machine per suite and session, and a service in each scope of it, clean before every test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.systemd.machine import VERSIONS, Machine, Service, need, wheel


@pytest.fixture(scope="session")
def built_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session", params=list(VERSIONS))
def machine(request: pytest.FixtureRequest, built_wheel: Path) -> Iterator[Machine]:
    need(request.param)
    with contextlib.closing(Machine(request.param, built_wheel)) as booted:
        # the operator's own systemd, as with loginctl enable-linger
        booted.run("systemctl", "start", "user@1000.service")
        yield booted


@pytest.fixture(scope="session")
def installed(machine: Machine) -> dict[str, Service]:
    found = {}
    for scope in ("user", "system"):
        found[scope] = Service(machine, scope)
        found[scope].install()
    return found


@pytest.fixture
def system(installed: dict[str, Service]) -> Iterator[Service]:
    yield from _clean(installed["system"])


@pytest.fixture
def user(installed: dict[str, Service]) -> Iterator[Service]:
    yield from _clean(installed["user"])


@pytest.fixture(params=["system", "user"])
def service(request: pytest.FixtureRequest, installed: dict[str, Service]) -> Iterator[Service]:
    """One after the other."""
    yield from _clean(installed[request.param])


def _clean(service: Service) -> Iterator[Service]:
    service.reset()
    yield service
    service.reset()
