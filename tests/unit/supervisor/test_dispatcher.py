"""Actors on the loop: pykka's contract that the dispatcher relies on, and the deliberate differences."""

import asyncio
import inspect
import threading

import pykka
import pytest
import uvloop

from supervisor.dispatcher import SLICE_MESSAGES, ActorStartError, LoopActor, ask, stop


class Counter(LoopActor):
    def __init__(self, log=None):
        super().__init__()
        self.count = 0
        self.log = [] if log is None else log
        self.crashes = 0

    def on_receive(self, message):
        if isinstance(message, BaseException):
            raise message
        if callable(message):
            return message()
        self.count += 1
        self.log.append(message)
        return self.count

    def on_crash(self, error):
        self.log.append(f"crash {type(error).__name__}")


def run(coroutine):
    """On the loop that children run on."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)


def test_pykka_loop_calls_get_outside_of_its_try_block():
    source = inspect.getsource(pykka.Actor._actor_loop_running)
    assert source.index("self.actor_inbox.get()") < source.index("try:")


def test_messages_are_handled_in_order_in_slices():
    async def case():
        log = []
        first, second = Counter.start(log), Counter.start(log)
        for n in range(SLICE_MESSAGES * 2):
            first.tell(("first", n))
            second.tell(("second", n))
        await ask(first, "x")
        await ask(second, "x")
        return log

    log = run(case())
    firsts = [n for who, n in (m for m in log if m != "x") if who == "first"]
    assert firsts == list(range(SLICE_MESSAGES * 2))
    assert log[SLICE_MESSAGES][0] == "second", "one actor's slice ends so that the other runs"


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(1), KeyboardInterrupt()])
def test_crash_in_ask_ends_that_actor_alone(error):
    async def case():
        victim, bystander = Counter.start(), Counter.start()
        with pytest.raises((ValueError, RuntimeError)):
            await ask(victim, error)
        assert not victim.is_alive()
        with pytest.raises(pykka.ActorDeadError):
            await ask(victim, "more")
        return await ask(bystander, "still here")

    assert run(case()) == 1


def test_crash_in_tell_is_reported_once():
    async def case():
        log = []
        ref = Counter.start(log)
        ref.tell(ValueError("x"))
        waiting = ref.ask("queued behind", block=False)
        with pytest.raises(pykka.ActorDeadError):
            await waiting
        return log

    assert run(case()) == ["crash ValueError"]


def test_failing_on_start_fails_start():
    class Broken(LoopActor):
        def on_start(self):
            raise OSError("no")

    async def case():
        with pytest.raises(ActorStartError, match="no"):
            Broken.start()
        return pykka.ActorRegistry.get_by_class(Broken)

    assert run(case()) == []


def test_blocking_ask_on_the_loop_is_refused():
    async def case():
        ref = Counter.start()
        with pytest.raises(RuntimeError, match="blocking ask"):
            ref.ask("x")

    run(case())


def test_tell_from_another_thread_is_handled():
    async def case():
        ref = Counter.start()
        thread = threading.Thread(target=ref.tell, args=("from afar",))
        thread.start()
        await asyncio.to_thread(thread.join)
        return await ask(ref, "x")

    assert run(case()) == 2


def test_answer_that_is_a_future_is_waited_for():
    async def case():
        ref = Counter.start()
        later = asyncio.get_running_loop().create_future()
        asking = asyncio.create_task(ask(ref, lambda: later))
        later.set_result("done")
        return await asking

    assert run(case()) == "done"


def test_stop_handles_what_was_sent_before():
    async def case():
        log = []
        ref = Counter.start(log)
        ref.tell("a")
        await stop(ref)
        await stop(ref)
        return log, ref.is_alive()

    assert run(case()) == (["a"], False)
