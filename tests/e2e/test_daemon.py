"""One daemon from the outside: ingest, verdict, desktop, command line, settings; as an operator and a sensor see it."""

from __future__ import annotations

import json
import re
import sqlite3
import stat
import threading

import httpx
import pytest

from tests.e2e.daemon_rig import Daemon, daemon, until
from tests.e2e.desktop_rig import desktop

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("daemon")]


@pytest.fixture(scope="module")
def screen():
    with desktop() as one:
        yield one


@pytest.fixture(scope="module")
def one(screen):
    with daemon("run:\n  shards: 2\n", screen.env) as started:
        yield started


def same_read(session, count, start=0, **more):
    event = {"session_id": session, "tool": "read", "fingerprint": "f", "slice": "s", "target": "a.py", "exit": 0}
    return [event | {"id": f"{session}:{n}", "result": "r"} | more for n in range(start, start + count)]


def post(one, body, **options):
    with one.client("sensor") as client:
        return client.post("/v1/progress", json=body, **options)


def test_loop_is_seen_on_desktop_cli_and_api_within_seconds_and_alerts_once(one, screen):
    for start in range(0, 40, 4):
        assert post(one, same_read("loop", 4, start, agent="build")).status_code == 202
    shown = until(lambda: screen.shown("loop"), 5, "a notification")
    assert shown[0]["app"] == "treewarden"
    assert "a.py" in shown[0]["body"]
    listed = json.loads(one.cli("trees", "--json").stdout)["trees"]
    row = next(tree for tree in listed if tree["id"] == "loop")
    assert row["verdict"] == "looping"
    fields = "id verdict reason status mode stage conversations events"
    fields += " turns_since_landed usd_since_landed top_target last_event_at"
    assert set(fields.split()) <= set(row)
    with one.client() as client:
        tree = client.get("/v1/trees/loop").json()
        warnings = client.get("/v1/warnings").json()["warnings"]
    assert [t["after"] for t in tree["transitions"]] == ["stalling", "looping"]
    assert tree["thresholds"]["stall_turns"] == 25
    assert tree["evidence"]["turns_since_landed"] == 40
    warning = next(w for w in warnings if w["conversation"] == "loop")
    assert {"conversation", "agent", "turns_since_landed", "usd_since_landed", "top_target"} <= set(warning)
    assert len(until(lambda: screen.shown("loop")[1:], 5, "the escalation")) == 1


def test_thousand_events_inside_one_verdict_are_one_alert(one, screen):
    for start in range(0, 1000, 250):
        assert post(one, same_read("thousand", 250, start, tool=f"t{start}", fingerprint=None)).status_code == 202
    until(lambda: screen.shown("thousand"), 5, "a notification")
    with one.client() as client:
        changes = len(client.get("/v1/trees/thousand").json()["transitions"])
    assert len(screen.shown("thousand")) == changes <= 2


def test_resume_resolves_the_alert_and_closes_the_notification(one, screen):
    post(one, same_read("resumed", 30))
    first = until(lambda: screen.shown("resumed"), 5, "a notification")[0]
    one.cli("resume", "resumed")
    until(lambda: {"call": "CloseNotification", "id": first["id"], "known": True} in screen.calls, 5, "it is closed")
    assert json.loads(one.cli("why", "resumed", "--json").stdout)["verdict"] == "ok"


def test_why_shows_evidence_thresholds_and_what_comes_next(one):
    post(one, same_read("why", 30))
    text = one.cli("why", "why").stdout
    assert "stalling" in text
    assert re.search(r"30\b.*25", text), "turns against their threshold"
    assert "what would happen next:" in text
    assert "every mode only warns" in text


def test_mode_of_the_daemon_and_of_one_tree_survives_a_restart(screen):
    made = Daemon("run:\n  shards: 2\n", screen.env)
    try:
        made.start()
        post(made, same_read("t1", 3))
        made.cli("mode", "auto_compact", "t1")
        made.cli("mode", "auto_recover")
        made.stop()
        made.start()
        assert made.status()["mode"] == "auto_recover"
        with made.client() as client:
            assert client.get("/v1/trees/t1").json()["mode"] == "auto_compact"
        shown = json.loads(made.cli("config", "show", "--json").stdout)
        assert "runtime" in json.dumps(shown)
        made.cli("mode", "warn")
        assert made.status()["mode"] == "warn"
    finally:
        made.close()


def test_mode_refuses_what_is_no_mode_and_names_the_allowed(one):
    done = one.cli("mode", "panic", check=None)
    assert done.returncode == 5
    assert "auto_recover" in done.stdout + done.stderr


def test_change_during_a_childs_death_reaches_it_or_nobody(one):
    """A settings change while a shard is down: the shard that comes back has it."""
    one.kill("forest-0")
    one.cli("mode", "auto_limit_context")
    until(lambda: one.children()["forest-0"]["state"] == "ready", 10, "the shard is back")
    for session in ("m1", "m2", "m3", "m4"):
        assert post(one, same_read(session, 2)).status_code == 202
        with one.client() as client:
            assert client.get(f"/v1/trees/{session}").json()["mode"] == "auto_limit_context"
    one.cli("mode", "warn")


def test_status_json_holds_what_is_promised(one):
    status = json.loads(one.cli("status", "--json", check=None).stdout)
    assert {"version", "url", "control_socket", "token_file", "mode", "children", "trees"} <= set(status)
    assert {"id", "pid", "state", "restarts"} <= set(status["children"][0])
    assert {"total", "by_verdict"} <= set(status["trees"])


@pytest.mark.parametrize(
    ("body", "headers", "scope", "wanted"),
    [
        (b"{nonsense", {"content-type": "application/json"}, "sensor", 400),
        (b"{}", {"content-type": "application/json"}, "sensor", 400),
        (b"<x/>", {"content-type": "application/xml"}, "sensor", 415),
        (b"[" + b" " * (1 << 20) + b"]", {"content-type": "application/json"}, "sensor", 413),
        (json.dumps([{"session_id": "x"}] * 1001).encode(), {"content-type": "application/json"}, "sensor", 413),
        (b"{}", {"content-type": "application/json", "authorization": "Bearer wrong"}, "sensor", 401),
        (b"{}", {"content-type": "application/json", "host": "evil.example"}, "sensor", 421),
    ],
)
def test_bad_request_gets_the_fitting_status(one, body, headers, scope, wanted):
    with one.client(scope) as client:
        answer = client.post("/v1/progress", content=body, headers=headers)
    assert answer.status_code == wanted, answer.text
    assert answer.json()["error"]["message"]


def test_sensor_token_reads_nothing_and_admits_nothing(one):
    with one.client("sensor") as client:
        assert client.get("/v1/trees").status_code == 403
        assert client.post("/v1/admission", json={"conversation": "x"}).status_code == 403


def test_items_are_judged_one_by_one_and_the_bad_one_is_named(one):
    items = [{"session_id": "mixed", "id": "1"}, {"session_id": "mixed", "id": "2", "exit": "zero"}, {"id": "3"}]
    answer = post(one, items)
    assert answer.status_code == 202
    body = answer.json()
    assert (body["accepted"], body["rejected"]) == (1, 2)
    assert [(e["index"], e["field"]) for e in body["errors"]] == [(1, "exit"), (2, "session_id")]
    assert all(e["allowed"] for e in body["errors"])


def test_unversioned_path_headers_and_aliases_are_accepted(one):
    headers = {"X-Opencode-Session": "aliased", "X-Router-Agent": "My Agent"}
    with one.client("sensor") as client:
        assert client.post("/progress", json={"tool": "read"}, headers=headers).status_code == 202
        assert client.post("/progress", content=b'{"session_id":"nd1"}\n{"session_id":"nd1"}\n').status_code == 202
    with one.client() as client:
        assert client.get("/v1/trees/aliased").json()["conversations"][0]["agent"] == "my-agent"
        assert client.get("/v1/trees/nd1").json()["events"] == 2


def test_admission_answers_with_tree_and_verdict(one):
    post(one, [{"session_id": "kid", "parent_session_id": "mum", "id": "k1"}])
    with one.client("router") as client:
        answer = client.post("/v1/admission", json={"conversation": "kid", "model": "m", "prompt_tokens": 5}).json()
        unknown = client.post("/v1/admission", json={"conversation": "new", "parent": "kid"}).json()
        bad = client.post("/v1/admission", json={"conversation": ""})
    assert (answer["decision"], answer["tree"], answer["verdict"], answer["skip_models"]) == ("allow", "mum", "ok", [])
    assert unknown["tree"] == "mum"
    assert bad.status_code == 400
    assert "conversation" in bad.text


def test_late_parent_moves_a_tree_with_its_history(one, screen):
    post(one, same_read("late-child", 30))
    until(lambda: screen.shown("late-child"), 5, "an alert of its own")
    post(one, same_read("late-root", 1, fingerprint="z"))
    assert post(one, same_read("late-child", 1, 50, parent_session_id="late-root")).status_code == 202
    with one.client() as client:
        tree = client.get("/v1/trees/late-root").json()
        assert client.get("/v1/trees").status_code == 200
    assert tree["events"] == 32
    assert tree["verdict"] == "looping"
    assert {c["id"]: c["parent"] for c in tree["conversations"]} == {"late-root": None, "late-child": "late-root"}


def test_tree_can_be_named_by_a_conversation_or_by_what_it_was_called_before_a_merge(one):
    post(one, same_read("was-root", 30))
    post(one, [{"session_id": "was-root", "parent_session_id": "now-root", "id": "p1", "tool": "t"}])
    assert json.loads(one.cli("why", "was-root", "--json").stdout)["id"] == "now-root"
    assert json.loads(one.cli("resume", "was-root", "--json").stdout)["tree"] == "now-root"
    assert json.loads(one.cli("why", "now-root", "--json").stdout)["verdict"] == "ok"
    assert one.cli("resume", "never-seen", check=None).returncode != 0


def test_concurrent_senders_of_late_parents_agree_with_the_order_known_before(one):
    """Many children learn their parent at once, from many connections: one tree, every event once."""

    def send(name):
        post(one, [{"session_id": name, "id": f"{name}:{n}", "tool": "t"} for n in range(5)])
        post(one, [{"session_id": name, "parent_session_id": "race-root", "id": f"{name}:p", "tool": "t"}])

    threads = [threading.Thread(target=send, args=(f"race-{n}",)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    with one.client() as client:
        tree = client.get("/v1/trees/race-root").json()
    assert tree["events"] == 12 * 6
    assert len(tree["conversations"]) == 13


def test_tokens_and_sockets_are_the_owners_only(one):
    for path in [one.runtime / "sensor.json", one.runtime / "control.sock", *(one.state / "tokens").iterdir()]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert stat.S_IMODE((one.state / "treewarden.db").stat().st_mode) & 0o077 == 0


def test_line_of_state_comes_at_once_after_a_change_and_then_as_often_as_is_set(one):
    def lines():
        return one.log.read_text(errors="replace").count("opencode servers:")

    until(lines, 20, "the first line")
    one.cli("config", "set", "run.line_every_s=1")
    assert until(lambda: lines() >= 4, 20, "three more, the first of them within the five minutes of the default")
    one.cli("config", "set", "run.line_every_s=")


def test_metrics_and_health_answer(one):
    with one.client() as client:
        metrics = client.get("/metrics").text
    assert httpx.get(one.sensor["url"] + "/healthz").status_code == 200
    assert "treewarden_trees" in metrics
    assert "loop" not in re.findall(r'tree="([^"]*)"', metrics)


def test_doctor_names_what_is_missing_with_a_fix(one):
    done = one.cli("doctor", check=None)
    assert done.returncode in (0, 7)
    assert "plugin" in done.stdout
    assert "install-plugin" in done.stdout


def test_no_daemon_is_exit_3():
    lonely = Daemon()
    try:
        assert lonely.cli("status", check=None).returncode == 3
    finally:
        lonely.close()


def test_database_is_what_sqlite_calls_sound(one):
    with sqlite3.connect(f"file:{one.state}/treewarden.db?mode=ro", uri=True) as db:
        assert db.execute("pragma quick_check").fetchone() == ("ok",)


def test_killed_process_leaves_a_crash_report_with_its_last_words(one):
    one.kill("clients")
    until(lambda: one.children()["clients"]["state"] == "ready", 10, "clients is back")

    def told():
        found = json.loads(one.cli("children", "--process", "clients", "--json").stdout)
        return found if found["crashes"] else None

    found = until(told, 10, "the crash report")
    assert found["deaths"]["clients"] >= 1
    crash = found["crashes"][0]
    assert (crash["supervisor"], crash["offender"], crash["context"]) == ("root", "clients", "child_terminated")
    assert "9" in crash["reason"] or "KILL" in crash["reason"]
    assert any("sees" in line for line in crash["log"]), crash["log"]
    assert "last crash" in one.cli("status").stdout
    assert "forest-1" in one.cli("children", "--tree").stdout


def test_restart_of_one_process_and_of_all_keeps_taking_events(one):
    """A sender goes on through both; it sees no refused connection, and nothing is lost."""
    before = {name: child["pid"] for name, child in one.children().items()}
    stop, codes = threading.Event(), []

    def send():
        n = 0
        while not stop.is_set():
            codes.append(post(one, [{"session_id": "rolling", "id": f"r{n}", "tool": "t"}]).status_code)
            n += 1

    sender = threading.Thread(target=send)
    sender.start()
    try:
        told = one.cli("restart", "forest-0").stdout
        assert "forest-0: ready again" in told
        after_one = {name: child["pid"] for name, child in one.children().items()}
        assert {name for name in before if before[name] != after_one[name]} == {"forest-0"}
        one.cli("restart", "--rolling")
    finally:
        stop.set()
        sender.join(30)
    after = {name: child["pid"] for name, child in one.children().items()}
    assert not set(after.values()) & set(after_one.values())
    assert set(codes) == {202}
    with one.client() as client:
        assert client.get("/v1/trees/rolling").json()["events"] == len(codes)
    assert one.cli("restart", "nobody", check=None).returncode == 5
    assert one.cli("restart", check=None).returncode == 2
