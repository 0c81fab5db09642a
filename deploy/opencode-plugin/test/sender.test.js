// Against real loopback servers. Waiting is by promise (a request came in, the queue is empty), never by sleeping.
import assert from "node:assert/strict"
import { createServer } from "node:http"
import { mkdtempSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { afterEach, test } from "node:test"
import { Endpoint, runtimeDir } from "../treewarden/endpoint.js"
import { Sender } from "../treewarden/sender.js"

const open = []
afterEach(() => Promise.all(open.splice(0).map((server) => new Promise((resolve) => {
  server.closeAllConnections()
  server.close(resolve)
}))))

const directory = () => mkdtempSync(path.join(tmpdir(), "tw-"))
const announce = (where, url, token = "t") => writeFileSync(path.join(where, "sensor.json"), JSON.stringify({ url, token }))

// answer(n, request) -> status, or undefined to keep the request hanging
async function serve(answer, port = 0) {
  const got = { requests: [], events: [], waiting: [] }
  const server = createServer(async (request, response) => {
    let body = ""
    for await (const part of request) body += part
    const events = JSON.parse(body)
    const status = answer(got.requests.length, request, events)
    got.requests.push({ headers: request.headers, events, status })
    if (status === 202) got.events.push(...events.map((event) => event.id))
    if (status !== undefined) response.writeHead(status).end("{}")
    got.waiting.splice(0).forEach((wake) => wake())
  })
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve))
  open.push(server)
  const until = async (condition) => {
    while (!condition(got)) await new Promise((wake) => got.waiting.push(wake))
  }
  return { ...got, got, until, url: `http://127.0.0.1:${server.address().port}`, server }
}

const sender = (where) => new Sender({ endpoint: new Endpoint(where), headers: { "x-treewarden-sensor": "test/1" }, random: () => 0 })
const event = (id, fields = {}) => ({ id, session_id: "s", ...fields })
// A timer that keeps the test alive: the sender's own timers never keep a process alive.
const alive = (work) => {
  const timer = setInterval(() => {}, 1000)
  return work.finally(() => clearInterval(timer))
}

test("events of one moment travel together, in order, with token and version", async () => {
  const where = directory()
  const { got, until, url } = await serve(() => 202)
  announce(where, url)
  const ship = sender(where)
  for (const id of ["a", "b", "c"]) ship.add(event(id))
  await alive(until(() => got.events.length === 3))
  assert.equal(got.requests.length, 1)
  assert.deepEqual(got.events, ["a", "b", "c"])
  assert.equal(got.requests[0].headers.authorization, "Bearer t")
  assert.equal(got.requests[0].headers["x-treewarden-sensor"], "test/1")
})

test("adding never waits or throws: no daemon, no file, nobody on the port", async () => {
  const where = directory()
  const ship = sender(where)
  ship.add(event("a"))
  announce(where, "http://127.0.0.1:9")
  ship.add(event("b"))
  await alive(ship.flush(200))
  assert.equal(ship.pending, 2)
})

test("a daemon that is down loses nothing: everything arrives in order once it is back, on another port", async () => {
  const where = directory()
  announce(where, "http://127.0.0.1:9")
  const ship = sender(where)
  ship.add(event("a", { landed: true }))
  ship.add(event("b"))
  await alive(ship.flush(100))
  const { got, until, url } = await serve(() => 202)
  announce(where, url)
  ship.add(event("c"))
  await alive(until(() => got.events.length === 3))
  assert.deepEqual(got.events, ["a", "b", "c"])
})

test("503 and 429 are repeated with the same ids until they are accepted", async () => {
  const where = directory()
  const { got, until, url } = await serve((n) => [503, 429, 202][n] ?? 202)
  announce(where, url)
  const ship = sender(where)
  ship.add(event("a"))
  await alive(until(() => got.events.length === 1))
  assert.deepEqual(got.requests.map((request) => request.events.map(({ id }) => id)), [["a"], ["a"], ["a"]])
})

test("401: the file is read again and the new token used", async () => {
  const where = directory()
  const { got, until, url } = await serve((_, request) => (request.headers.authorization === "Bearer new" ? 202 : 401))
  announce(where, url, "old")
  const ship = sender(where)
  ship.add(event("a"))
  await alive(until(() => got.requests.length === 1))
  announce(where, url, "new")
  await alive(until(() => got.events.length === 1))
  assert.equal(got.requests.at(-1).headers.authorization, "Bearer new")
})

test("a daemon that does not answer is given up after 300 ms and asked again with more time", async () => {
  const where = directory()
  const { got, until, url } = await serve((n) => (n === 0 ? undefined : 202))
  announce(where, url)
  const ship = sender(where)
  const begun = performance.now()
  ship.add(event("a"))
  const added = performance.now() - begun
  await alive(until(() => got.events.length === 1))
  assert.ok(added < 50, `add took ${added} ms`)
  assert.equal(got.requests.length, 2)
})

test("one refused event is found and dropped, the others arrive", async () => {
  const where = directory()
  const { got, until, url } = await serve((_, __, events) => (events.some(({ id }) => id === "bad") ? 400 : 202))
  announce(where, url)
  const ship = sender(where)
  for (const id of ["a", "b", "bad", "c", "d"]) ship.add(event(id))
  await alive(until(() => got.events.length === 4))
  assert.deepEqual(got.events, ["a", "b", "c", "d"])
  assert.equal(ship.dropped, 1)
})

test("the buffer is bounded; what landed is kept, what was lost is told", async () => {
  const where = directory()
  const ship = sender(where)
  ship.add(event("first", { landed: true }))
  for (let n = 0; n < 3000; n++) ship.add(event(`n${n}`, { landed: n === 300 }))
  assert.equal(ship.pending, 2000)
  assert.equal(ship.dropped, 1001)
  const { got, until, url } = await serve(() => 202)
  announce(where, url)
  await alive(until(() => got.events.length === 2000))
  assert.equal(got.events[0], "first")
  assert.ok(got.events.includes("n300") && !got.events.includes("n299"))
  assert.equal(got.events.at(-1), "n2999")
  assert.ok(got.requests.every((request) => request.headers["x-treewarden-dropped"] === "1001" && request.events.length <= 200))
})

test("flush at the client's shutdown sends what is left and keeps its time", async () => {
  const where = directory()
  const { got, url } = await serve(() => 202)
  announce(where, url)
  const ship = sender(where)
  ship.add(event("a"))
  await alive(ship.flush(1000))
  assert.deepEqual(got.events, ["a"])
})

test("sensor.json that is torn, empty or names another host is no endpoint", async () => {
  const where = directory()
  const endpoint = new Endpoint(where)
  assert.equal(await endpoint.find(), undefined)
  for (const text of ["", '{"url": "http://127.0.0.1:1"', "{}", '{"url":"http://evil.example","token":"t"}', '{"url":"nonsense","token":"t"}']) {
    writeFileSync(path.join(where, "sensor.json"), text)
    assert.equal(await endpoint.find(), undefined, text)
  }
  announce(where, "http://127.0.0.1:1/")
  assert.deepEqual(await endpoint.find(), { url: "http://127.0.0.1:1", token: "t" })
})

test("the runtime directory is the daemon's", () => {
  assert.equal(runtimeDir({ TREEWARDEN_RUNTIME_DIR: "/a", XDG_RUNTIME_DIR: "/b" }), "/a")
  assert.equal(runtimeDir({ XDG_RUNTIME_DIR: "/b" }), "/b/treewarden")
  assert.equal(runtimeDir({}), `/tmp/treewarden-${process.getuid()}`)
})
