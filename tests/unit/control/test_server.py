"""Who may use the control socket, over real Unix sockets."""

import asyncio
import os

import httpx
import pytest
import uvloop
from starlette.responses import JSONResponse
from starlette.routing import Route

from supervisor.control.guard import refusal
from supervisor.control.peer import Peer, peer_of
from supervisor.control.problem import Problem
from supervisor.control.server import application, serve
from tests.unit.control.sockets import listener, served

LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])


async def who(request):
    peer = peer_of(request.scope)
    return JSONResponse({"pid": peer.pid, "uid": peer.uid})


async def no(_request):
    raise Problem(412, "conflict", "somebody was faster", ["x"])


ROUTES = [Route("/who", who, methods=["GET", "POST"]), Route("/no", no)]


def run(case, loop=uvloop.new_event_loop):
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(case)


def answers(tmp_path, *requests, uids=None, loop=uvloop.new_event_loop):
    async def case():
        async with served(application(ROUTES, uids=uids), tmp_path / "c.sock") as client:
            return [await client.request(*args, **kwargs) for args, kwargs in requests]

    return run(case(), loop)


@LOOPS
def test_server_request_carries_the_peers_uid_and_pid(tmp_path, loop):
    (answer,) = answers(tmp_path, (("GET", "/who"), {}), loop=loop)
    assert answer.json() == {"pid": os.getpid(), "uid": os.getuid()}


def test_server_second_request_on_a_connection_carries_them_too(tmp_path):
    found = answers(tmp_path, (("GET", "/who"), {}), (("POST", "/who"), {"json": {}}))
    assert [answer.json()["uid"] for answer in found] == [os.getuid()] * 2


def test_server_other_user_is_denied(tmp_path):
    (answer,) = answers(tmp_path, (("GET", "/who"), {}), uids=frozenset({os.getuid() + 1}))
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "denied"
    assert f"user {os.getuid()}" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://localhost"},
        {"Origin": ""},
        {"Referer": "http://localhost/x"},
        {"Host": "evil.example"},
        {"Host": "localhost.evil.example:80"},
        {"Host": ""},
    ],
)
def test_server_browsers_request_is_denied(tmp_path, headers):
    (answer,) = answers(tmp_path, (("GET", "/who"), {"headers": headers}))
    assert answer.status_code == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:7717", "control", "LOCALHOST"])
def test_server_own_hosts_are_served(tmp_path, host):
    (answer,) = answers(tmp_path, (("GET", "/who"), {"headers": {"Host": host}}))
    assert answer.status_code == 200


def test_server_problem_becomes_an_error_body(tmp_path):
    (answer,) = answers(tmp_path, (("GET", "/no"), {}))
    assert answer.status_code == 412
    assert answer.json() == {"error": {"code": "conflict", "message": "somebody was faster", "problems": ["x"]}}


def test_server_restart_on_the_same_listener_serves_who_waits(tmp_path):
    """The socket is root's: what connects while no server runs is served by the next one."""

    async def case():
        sock = listener(tmp_path / "c.sock")
        for _ in range(2):
            stopping = asyncio.Event()
            transport = httpx.AsyncHTTPTransport(uds=str(tmp_path / "c.sock"))
            async with httpx.AsyncClient(transport=transport, base_url="http://control", timeout=5) as client:
                asking = asyncio.create_task(client.get("/who"))
                serving = asyncio.create_task(serve(application(ROUTES), sock.dup(), stopping))
                assert (await asking).status_code == 200
                stopping.set()
                await serving
        sock.close()

    run(case())


def test_server_that_stops_answers_who_still_waits_and_logs_no_traceback(tmp_path, caplog):
    async def case():
        taken, stopping = asyncio.Event(), asyncio.Event()

        async def slow(_request):
            taken.set()
            await asyncio.Event().wait()

        serving = asyncio.create_task(
            serve(application([Route("/slow", slow)]), listener(tmp_path / "c.sock"), stopping)
        )
        transport = httpx.AsyncHTTPTransport(uds=str(tmp_path / "c.sock"))
        async with httpx.AsyncClient(transport=transport, base_url="http://control", timeout=5) as client:
            asking = asyncio.create_task(client.get("/slow"))
            await taken.wait()
            stopping.set()
            await serving
            return await asking

    answer = run(case())
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "stopping")
    assert not [record for record in caplog.records if record.exc_info]


def test_guard_host_given_twice_is_refused():
    scope = {"peer": Peer(1, 7, 7), "headers": [(b"host", b"control"), (b"host", b"evil")]}
    assert refusal(scope, frozenset({7})) is not None
    scope["headers"] = scope["headers"][:1]
    assert refusal(scope, frozenset({7})) is None


def test_guard_connection_without_credentials_is_refused():
    assert refusal({"peer": None, "headers": [(b"host", b"control")]}, frozenset({0})) is not None
