// Stories as the real client tells them (event shapes recorded from opencode 1.18.33), through the v1 shell.
import assert from "node:assert/strict"
import { mkdtempSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { test } from "node:test"
import plugin from "../treewarden.js"
import { BoundedMap, Once } from "../treewarden/bounded.js"
import { Sensor } from "../treewarden/sensor.js"
import { Sessions } from "../treewarden/sessions.js"
import { hooksV1 } from "../treewarden/shell_v1.js"

const CANARY = "CANARY-hunter2"

class Kept {
  events = []
  faults = 0
  add(event) {
    this.events.push(event)
  }
  fault() {
    this.faults++
  }
  async flush() {}
}

function story({ lookup = async () => ({}), root = mkdtempSync(path.join(tmpdir(), "tw-")) } = {}) {
  const sender = new Kept()
  const sensor = new Sensor({ root, lookup, sender, now: () => 1_700_000_000_000 })
  const hooks = hooksV1(sensor)
  const bus = (type, properties) => hooks.event({ event: { type, properties } })
  const told = async (...names) => {
    await sensor.flush()
    return sender.events.map((event) => (names.length ? Object.fromEntries(names.map((name) => [name, event[name]])) : event))
  }
  const kinds = async () => (await told()).map((event) => event.kind ?? "tool")
  return { root, sender, sensor, hooks, bus, told, kinds, ...sayings(bus) }
}

const sayings = (bus) => ({
  user: async (id, parts = [{ type: "text", text: CANARY }], session = "ses_1") => {
    await bus("message.updated", { info: { id, role: "user", sessionID: session, agent: "build" } })
    for (const [at, part] of parts.entries())
      await bus("message.part.updated", { part: { id: `${id}p${at}`, messageID: id, sessionID: session, ...part } })
  },
  assistant: (id, answered, fields = {}, session = "ses_1") =>
    bus("message.updated", { info: { id, role: "assistant", sessionID: session, parentID: answered, agent: "build", mode: "build",
      modelID: "m", providerID: "p", cost: 0, tokens: { input: 0, output: 0, reasoning: 0, cache: { read: 0, write: 0 } }, time: { created: 1 }, ...fields } }),
  tool: (status, fields, session = "ses_1") =>
    bus("message.part.updated", { part: { type: "tool", id: "prt", messageID: "msg_a", sessionID: session, tool: "read", callID: "c1", ...fields,
      state: { status, input: { filePath: "/x/a.txt" }, ...fields?.state } } }),
})

const DONE = { time: { created: 1, completed: 2 }, finish: "tool-calls", cost: 0.5,
  tokens: { total: 1070, input: 600, output: 40, reasoning: 30, cache: { read: 300, write: 100 } } }

test("the plugin file exports the module form of v1 and nothing else", async () => {
  assert.deepEqual(Object.keys(await import("../treewarden.js")), ["default"])
  assert.equal(plugin.id, "treewarden")
  const hooks = await plugin.server({ directory: "/x", worktree: "/x", client: {} })
  assert.deepEqual(Object.keys(hooks).sort(), ["chat.headers", "dispose", "event", "tool.execute.after", "tool.execute.before"])
})

test("a call that succeeded is one event, whatever is told of it afterwards", async () => {
  const { hooks, tool, told } = story()
  await tool("pending")
  await tool("running")
  const input = { tool: "read", sessionID: "ses_1", callID: "c1", args: { filePath: "/x/a.txt" } }
  await hooks["tool.execute.after"](input, { title: "a.txt", output: CANARY, metadata: {} })
  await tool("completed", { state: { output: CANARY, metadata: {} } })
  const [event, ...more] = await told()
  assert.equal(more.length, 0)
  assert.deepEqual([event.tool, event.call_id, event.round, event.exit, event.landed, event.source], ["read", "c1", "msg_a", 0, false, "plugin"])
  assert.equal(event.t, 1_700_000_000)
})

test("a call that failed is one event: the after hook is not called for it", async () => {
  const { tool, told } = story()
  await tool("error", { state: { error: `File not found: ${CANARY}` } })
  await tool("error", { state: { error: `File not found: ${CANARY}` } })
  assert.deepEqual(await told("tool", "exit", "error", "landed"), [{ tool: "read", exit: 1, error: "notfound", landed: false }])
})

test("a call that was aborted is not a failure of the agent", async () => {
  const { tool, told } = story()
  await tool("error", { state: { error: "Tool execution aborted" } })
  assert.deepEqual(await told("exit", "error"), [{ exit: null, error: undefined }])
})

test("an unknown tool is a failure although its status says completed", async () => {
  const { hooks, told } = story()
  const args = { tool: "nosuch", error: "Model tried to call unavailable tool 'nosuch'." }
  await hooks["tool.execute.after"]({ tool: "invalid", sessionID: "ses_1", callID: "c1", args }, { output: "The arguments...", metadata: {} })
  assert.deepEqual(await told("exit", "error"), [{ exit: 1, error: "unknown_tool" }])
})

test("a write lands when the content changes and not when it does not", async () => {
  const { hooks, root, told } = story()
  const args = { filePath: path.join(root, "b.txt"), content: "one" }
  for (const callID of ["c1", "c2"]) {
    const call = { tool: "write", sessionID: "ses_1", callID }
    await hooks["tool.execute.before"](call, { args })
    writeFileSync(args.filePath, args.content)
    await hooks["tool.execute.after"]({ ...call, args }, { output: "Wrote file successfully.", metadata: { exists: callID === "c2" } })
  }
  const [first, second] = await told("landed", "state")
  assert.deepEqual([first.landed, second.landed], [true, false])
  assert.equal(first.state, second.state)
})

test("red, an edit by a child, green: the parent's test run lands", async () => {
  const { hooks, root, told } = story()
  const bash = (callID, exit) => hooks["tool.execute.after"]({ tool: "bash", sessionID: "ses_1", callID, args: { command: "pytest" } }, { output: "", metadata: { exit } })
  const file = path.join(root, "a.py")
  writeFileSync(file, "x")
  await bash("c1", 1)
  await bash("c2", 0)
  await bash("c3", 1)
  await hooks["tool.execute.after"]({ tool: "edit", sessionID: "ses_2", callID: "c4", args: { filePath: file } }, { output: "", metadata: { diff: "+x" } })
  await bash("c5", 0)
  assert.deepEqual((await told("landed")).map(({ landed }) => landed), [false, false, false, true, true])
})

test("one turn per finished assistant message, with usage; done when it stopped", async () => {
  const { assistant, told } = story()
  await assistant("msg_a", "msg_u")
  await assistant("msg_a", "msg_u", { ...DONE, time: { created: 1 } })
  await assistant("msg_a", "msg_u", DONE)
  await assistant("msg_a", "msg_u", DONE)
  await assistant("msg_b", "msg_u", { ...DONE, finish: "stop" })
  const [turn] = await told()
  assert.deepEqual(await told("kind", "round"), [{ kind: "turn", round: "msg_a" }, { kind: "turn", round: "msg_b" }, { kind: "done", round: "msg_b" }])
  assert.deepEqual([turn.model, turn.provider, turn.cost_usd, turn.context_tokens], ["m", "p", 0.5, 1000])
  assert.deepEqual(turn.tokens, { prompt: 1000, cached: 300, completion: 70 })
})

test("what the assistant said is told as digests, once", async () => {
  const { assistant, bus, told } = story()
  await assistant("msg_a", "msg_u")
  const part = { type: "text", id: "prt_1", messageID: "msg_a", sessionID: "ses_1", text: "" }
  await bus("message.part.updated", { part: { ...part, time: { start: 1 } } })
  for (let n = 0; n < 2; n++) await bus("message.part.updated", { part: { ...part, text: "I am done now", time: { start: 1, end: 2 } } })
  await bus("message.part.updated", { part: { ...part, id: "prt_2", type: "reasoning", text: "Hm hm", time: { start: 1, end: 2 } } })
  const events = await told()
  assert.deepEqual(events.map(({ kind }) => kind), ["assistant", "reasoning"])
  assert.match(events[0].said, /^[0-9a-f]{32}$/)
})

test("user and injected messages are told apart", async () => {
  const table = [
    [[{ type: "text", text: "hello" }], "user"],
    [[{ type: "text", text: "a", synthetic: true }, { type: "text", text: "look at this file" }], "user"],
    [[{ type: "file" }], "user"],
    [[{ type: "text", text: "Continue if you have next steps", synthetic: true }], "injected"],
    [[{ type: "text", text: "anything", synthetic: true }], "injected"],
    [[{ type: "text", text: "[treewarden] incident report" }], "injected"],
    [[{ type: "text", text: "\n[SYSTEM DIRECTIVE: OH-MY-OPENCODE - TODO CONTINUATION] go on" }], "injected"],
  ]
  for (const [parts, expected] of table) {
    const { user, assistant, told } = story()
    await user("msg_u", parts)
    await assistant("msg_a", "msg_u")
    const [event] = await told()
    assert.deepEqual([event.kind, event.injected], [expected, expected === "injected" ? true : undefined], JSON.stringify(parts))
  }
})

test("a noReply message was put there while nobody was at work and is never answered: injected", async () => {
  const { user, assistant, bus, told } = story()
  await user("msg_1")
  await user("msg_2")
  await bus("session.status", { sessionID: "ses_1", status: { type: "busy" } })
  await assistant("msg_a", "msg_2")
  assert.deepEqual(await told("kind", "round"), [{ kind: "injected", round: "msg_1" }, { kind: "user", round: "msg_2" }])
})

test("messages typed while the agent works are the user's, also when they are answered together", async () => {
  const { user, assistant, bus, told } = story()
  await bus("session.status", { sessionID: "ses_1", status: { type: "busy" } })
  await user("msg_1")
  await user("msg_2")
  await assistant("msg_a", "msg_2")
  assert.deepEqual(await told("kind", "round"), [{ kind: "user", round: "msg_1" }, { kind: "user", round: "msg_2" }])
})

test("a child's prompt comes from its parent's task call, not from the user", async () => {
  const { hooks, bus, user, assistant, told } = story()
  await bus("session.created", { info: { id: "ses_2", parentID: "ses_1" } })
  await hooks["tool.execute.before"]({ tool: "task", sessionID: "ses_1", callID: "c1" }, { args: {} })
  await user("msg_1", undefined, "ses_2")
  await assistant("msg_a", "msg_1", {}, "ses_2")
  await hooks["tool.execute.after"]({ tool: "task", sessionID: "ses_1", callID: "c1", args: {} }, { output: "", metadata: {} })
  await user("msg_2", undefined, "ses_2")
  await assistant("msg_b", "msg_2", {}, "ses_2")
  const events = await told("kind", "session_id", "parent_session_id")
  const child = { session_id: "ses_2", parent_session_id: "ses_1" }
  assert.deepEqual(events, [{ kind: "injected", ...child }, { kind: undefined, session_id: "ses_1", parent_session_id: undefined }, { kind: "user", ...child }])
})

test("compactions: success by event, failure by the summary message; the service message is nobody's", async () => {
  const { user, assistant, bus, told } = story()
  await user("msg_1", [{ type: "compaction", auto: false }])
  await assistant("msg_s", "msg_1", { summary: true, agent: "compaction", ...DONE, finish: "stop" })
  await bus("session.compacted", { sessionID: "ses_1" })
  await assistant("msg_t", "msg_1", { summary: true, agent: "compaction", time: { created: 1, completed: 2 }, error: { name: "APIError" } })
  const agentless = await told("kind", "error")
  assert.deepEqual(agentless, [{ kind: "turn", error: undefined }, { kind: "compaction", error: undefined },
    { kind: "turn", error: "provider" }, { kind: "compaction", error: "provider" }])
  assert.ok((await told("agent")).every(({ agent }) => agent !== "compaction"))
})

test("questions and permissions open and close; idle, retry, interrupt, reverted, deleted", async () => {
  const { assistant, bus, told } = story()
  const session = { sessionID: "ses_1" }
  await bus("permission.asked", { id: "per_1", permission: "bash", patterns: [CANARY], metadata: { command: CANARY }, ...session })
  await bus("permission.replied", { requestID: "per_1", reply: "once", ...session })
  await bus("question.asked", { id: "que_1", questions: [{ question: CANARY }], ...session })
  await bus("question.rejected", { requestID: "que_1", ...session })
  for (let n = 0; n < 2; n++) await bus("session.status", { status: { type: "retry", attempt: 1, message: CANARY, next: 5 }, ...session })
  await assistant("msg_a", "msg_u", { time: { created: 1, completed: 2 }, error: { name: "MessageAbortedError" } })
  await bus("session.idle", session)
  for (let n = 0; n < 2; n++) await bus("session.updated", { info: { id: "ses_1", revert: { messageID: "msg_u" } } })
  await bus("session.deleted", { info: { id: "ses_1" } })
  assert.deepEqual((await told("kind", "call_id")).map(({ kind, call_id }) => (call_id ? `${kind} ${call_id}` : kind)),
    ["open per_1", "close per_1", "open que_1", "close que_1", "retry", "turn", "interrupt", "idle", "reverted", "deleted"])
})

test("P023: no content on the wire, whatever field it comes in", async () => {
  const { hooks, user, assistant, tool, bus, told } = story()
  await user("msg_u")
  await assistant("msg_a", "msg_u", { ...DONE, path: { cwd: CANARY }, system: CANARY })
  await bus("message.part.updated", { part: { type: "text", id: "prt_1", messageID: "msg_a", sessionID: "ses_1", text: CANARY, time: { start: 1, end: 2 } } })
  await tool("error", { state: { error: CANARY, input: { command: CANARY } }, tool: "bash" })
  for (const [at, name] of ["bash", "edit", "write", "webfetch", "task", "todowrite"].entries()) {
    const call = { tool: name, sessionID: "ses_1", callID: `k${at}` }
    const args = { command: `curl ${CANARY}`, url: CANARY, content: CANARY, prompt: CANARY, description: CANARY, subagent_type: CANARY, pattern: CANARY }
    await hooks["tool.execute.before"](call, { args })
    await hooks["tool.execute.after"]({ ...call, args }, { title: CANARY, output: CANARY, metadata: { output: CANARY, diff: CANARY, exit: 0 } })
  }
  const events = await told()
  assert.equal(events.length, 10)
  assert.doesNotMatch(JSON.stringify(events), /hunter2/)
})

test("every event has an id of its own and none is sent twice by two sensors", async () => {
  const one = story()
  const two = story()
  for (const { bus } of [one, two]) for (let n = 0; n < 3; n++) await bus("session.idle", { sessionID: "ses_1" })
  const ids = [...(await one.told("id")), ...(await two.told("id"))].map(({ id }) => id)
  assert.equal(new Set(ids).size, 6)
})

test("headers name conversation, agent slug and parent", async () => {
  const { hooks } = story({ lookup: async () => ({ parentID: "ses_0" }) })
  const output = { headers: { other: "x" } }
  await hooks["chat.headers"]({ sessionID: "ses_1", agent: "Sisyphus (Ultra)" }, output)
  assert.deepEqual(output.headers, { other: "x", "X-Router-Conversation": "ses_1", "X-Router-Agent": "sisyphus-ultra", "X-Router-Parent": "ses_0", "x-treewarden-plugin": "0.1.0" })
})

test("hooks never throw, faults are counted", async () => {
  const { hooks, sender, kinds } = story()
  await hooks.event(undefined)
  await hooks.event({ event: { type: "message.part.updated", properties: { part: { type: "tool" } } } })
  await hooks["tool.execute.before"](undefined, undefined)
  await hooks["tool.execute.after"]({ tool: "bash", sessionID: "s", callID: "c", args: null }, null)
  await hooks["chat.headers"](undefined, undefined)
  await hooks.event({ event: { type: "something.new", properties: {} } })
  assert.ok(sender.faults >= 3)
  assert.deepEqual(await kinds(), ["tool"])
})

test("P015: 10,000 sessions leave a bounded memory; parents are looked up once", async () => {
  let asked = 0
  const sessions = new Sessions(async () => {
    asked++
    return { parentID: "root" }
  })
  for (let n = 0; n < 10_000; n++) assert.equal(await sessions.parent(`s${n}`), "root")
  await sessions.parent("s9999")
  assert.equal(asked, 10_000)
  assert.ok(sessions.size <= 2000)
})

test("a look-up that hangs is given up after 300 ms, and order is kept", async () => {
  const keep = setInterval(() => {}, 1000)
  const { bus, told } = story({ lookup: (id) => (id === "slow" ? new Promise(() => {}) : Promise.resolve({})) })
  const begun = performance.now()
  await bus("session.idle", { sessionID: "slow" })
  await bus("session.idle", { sessionID: "fast" })
  assert.ok(performance.now() - begun < 100)
  assert.deepEqual(await told("session_id"), [{ session_id: "slow" }, { session_id: "fast" }])
  clearInterval(keep)
})

test("bounded map forgets the least recently used", () => {
  const map = new BoundedMap(2)
  map.set("a", 1)
  map.set("b", 2)
  map.get("a")
  map.set("c", 3)
  assert.deepEqual([map.get("a"), map.get("b"), map.get("c")], [1, undefined, 3])
  const once = new Once(2)
  assert.deepEqual([once.first("x"), once.first("x")], [true, false])
})
