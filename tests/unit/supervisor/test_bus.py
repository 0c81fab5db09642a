"""The bus between real sockets: order, failures, back-pressure."""

import asyncio

import pytest
import uvloop

from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import AskTimeout, PeerUnavailable, QueueFull, Refused, RemoteError
from supervisor.bus.frames import Frame, FrameError, Splitter, encode

_LOOPS = {"children": uvloop.new_event_loop, "root": asyncio.new_event_loop}
_loop = "children"


@pytest.fixture(autouse=True, params=_LOOPS)
def either_loop(request):
    """Children run on uvloop, root on asyncio's own: the bus must do on both."""
    global _loop  # noqa: PLW0603 - one fixture for a file of plain functions
    _loop = request.param


def run(coroutine):
    with asyncio.Runner(loop_factory=_LOOPS[_loop]) as runner:
        return runner.run(coroutine)


async def pair(tmp_path, **options):
    left, right = Endpoint("left", tmp_path, **options), Endpoint("right", tmp_path, **options)
    await left.start()
    await right.start()
    return left, right


async def stop(*endpoints):
    for endpoint in endpoints:
        await endpoint.stop()


def test_splitter_any_cut_gives_the_same_frames():
    frames = [Frame("ask", 1, "A", b'{"x":1}'), Frame("tell", 2, "B", b""), Frame("ok", 3, "", b"null")]
    stream = b"".join(map(encode, frames))
    for cut in range(len(stream)):
        splitter = Splitter(1 << 20)
        assert [*splitter.feed(stream[:cut]), *splitter.feed(stream[cut:])] == frames


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x01x",
        b"\x00\x00\x00\x06\x00\x04nope",
        b"\x00\x00\x00\x04\x00\x0255",
        b'\x00\x00\x00\x11\x00\x0f["ask",1,["a"]]',
        b"\x00\x00\xea\x62\xea\x60" + b"[" * 60_000,
    ],
)
def test_splitter_garbage_is_an_error(garbage):
    with pytest.raises(FrameError):
        list(Splitter(1 << 20).feed(garbage))


def test_ask_answers_with_the_handlers_bytes(tmp_path):
    async def case():
        left, right = await pair(tmp_path)

        async def double(body):
            return body + body

        right.on("Double", double)
        answers = await asyncio.gather(*(left.ask("right", "Double", b"%d" % n) for n in range(100)))
        await stop(left, right)
        return answers

    assert run(case()) == [b"%d%d" % (n, n) for n in range(100)]


def test_asks_arrive_in_the_order_of_the_calls(tmp_path):
    async def case():
        left, right = await pair(tmp_path)
        seen = []

        async def note(body):
            seen.append(int(body))

        right.on("Note", note)
        await asyncio.gather(*(left.ask("right", "Note", b"%d" % n) for n in range(500)))
        await stop(left, right)
        return seen

    assert run(case()) == list(range(500))


def test_ask_absent_peer_is_unavailable(tmp_path):
    async def case():
        left = Endpoint("left", tmp_path)
        with pytest.raises(PeerUnavailable):
            await left.ask("nobody", "X")

    run(case())


def test_ask_peer_dies_before_answer_is_unavailable_and_next_ask_reconnects(tmp_path):
    async def case():
        left, right = await pair(tmp_path)
        asked = asyncio.Event()

        async def hang(_):
            asked.set()
            await asyncio.Event().wait()

        right.on("Hang", hang)
        waiting = asyncio.create_task(left.ask("right", "Hang"))
        await asked.wait()
        await right.stop()
        with pytest.raises(PeerUnavailable):
            await waiting
        again = Endpoint("right", tmp_path)

        async def here(_):
            return b'"here"'

        again.on("Hang", here)
        await again.start()
        answer = await left.ask("right", "Hang")
        await stop(left, again)
        return answer

    assert run(case()) == b'"here"'


def test_refusal_and_crash_reach_the_asker_with_their_code(tmp_path):
    async def case():
        left, right = await pair(tmp_path)

        async def refuse(_):
            raise Refused("conflict", {"rev": 3})

        async def crash(_):
            raise ZeroDivisionError("x")

        right.on("Refuse", refuse)
        right.on("Crash", crash)
        with pytest.raises(RemoteError) as refused:
            await left.ask("right", "Refuse")
        with pytest.raises(RemoteError) as crashed:
            await left.ask("right", "Crash")
        with pytest.raises(RemoteError) as unknown:
            await left.ask("right", "Nope")
        await stop(left, right)
        return [(e.value.code, e.value.detail) for e in (refused, crashed, unknown)]

    assert run(case()) == [
        ("conflict", {"rev": 3}),
        ("crashed", "ZeroDivisionError: x"),
        ("unknown_kind", "Nope"),
    ]


def test_message_to_a_starting_process_waits_for_its_handler(tmp_path):
    async def case():
        left, right = Endpoint("left", tmp_path), Endpoint("right", tmp_path)
        await right.start(opened=False)
        waiting = asyncio.create_task(left.ask("right", "Late"))
        await asyncio.wait([waiting], timeout=0.05)
        assert not waiting.done()

        async def late(_):
            return b"1"

        right.on("Late", late)
        right.open()
        answer = await waiting
        await stop(left, right)
        return answer

    assert run(case()) == b"1"


def test_full_queue_makes_the_sender_fail_loudly(tmp_path):
    async def case():
        left, right = await pair(tmp_path, max_pending=2)

        async def hang(_):
            await asyncio.Event().wait()

        right.on("Hang", hang)
        held = [asyncio.create_task(left.ask("right", "Hang", timeout_s=5)) for _ in range(2)]
        await asyncio.wait(held, timeout=0.05)
        with pytest.raises(QueueFull):
            await left.ask("right", "Hang", timeout_s=0.05)
        await stop(left, right)
        await asyncio.gather(*held, return_exceptions=True)

    run(case())


def test_ask_without_answer_times_out(tmp_path):
    async def case():
        left, right = await pair(tmp_path)

        async def hang(_):
            await asyncio.Event().wait()

        right.on("Hang", hang)
        with pytest.raises(AskTimeout):
            await left.ask("right", "Hang", timeout_s=0.05)
        await stop(left, right)

    run(case())


def test_path_over_the_unix_limit_is_refused_with_its_length(tmp_path):
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    with pytest.raises(ValueError, match="allowed are 107"):
        run(Endpoint("x", deep).start())


def test_regular_file_in_the_way_is_not_removed(tmp_path):
    (tmp_path / "left.sock").write_text("mine")
    with pytest.raises(FileExistsError):
        run(Endpoint("left", tmp_path).start())
    assert (tmp_path / "left.sock").read_text() == "mine"
