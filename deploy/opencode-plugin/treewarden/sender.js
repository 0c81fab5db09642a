// Ships events to the daemon: fire and forget (P021), in order, in batches, at least once.
//
// Ordering: one POST at a time; what is not acknowledged stays at the front. Events carry ids, so a repeated delivery is
// dropped by the daemon. Blocking: add() never waits. Bounds: at most LIMIT events are kept; beyond it the oldest that did
// not land goes first, since a lost landing becomes a false alarm. Lost on a crash of the client, and only then.
const LIMIT = 2000
const BATCH = 200
const FIRST_MS = 300
const SLOWEST_MS = 5000 // a daemon that needs longer than 300 ms is given more time on every retry, or nothing ever arrives
const BACKOFF_MS = [250, 30_000]
const STALE = new Set([401, 403, 404])
const REFUSED = new Set([400, 413, 415, 422]) // repeating the same bytes cannot help

export class Sender {
  #endpoint
  #headers
  #fetch
  #random
  #queue = []
  #sending
  #timer
  #failures = 0
  #batch = BATCH
  dropped = 0
  faults = 0

  constructor({ endpoint, headers = {}, fetch = globalThis.fetch, random = Math.random }) {
    this.#endpoint = endpoint
    this.#headers = headers
    this.#fetch = fetch
    this.#random = random
  }

  get pending() {
    return this.#queue.length
  }

  add(event) {
    this.#queue.push(event)
    if (this.#queue.length > LIMIT) this.#dropOne()
    if (this.#timer === undefined) this.#start()
  }

  // A fault inside the sensor: the daemon learns the number, the client never sees an exception.
  fault() {
    this.faults++
  }

  // Resolves when everything is acknowledged or the time is over; for the client's own shutdown.
  async flush(ms = FIRST_MS) {
    const deadline = Date.now() + ms
    while (this.#queue.length > 0 && Date.now() < deadline) {
      this.#cancelTimer()
      this.#start()
      const left = deadline - Date.now()
      await Promise.race([this.#sending, new Promise((resolve) => setTimeout(resolve, Math.max(0, left)))])
      if (this.#failures > 0) return
    }
  }

  // Events under way stay where they are: only the tail behind them may lose one.
  #dropOne() {
    const from = this.#sending ? Math.min(this.#batch, this.#queue.length - 1) : 0
    const victim = this.#queue.findIndex((event, at) => at >= from && !event.landed)
    this.#queue.splice(victim < 0 ? from : victim, 1)
    this.dropped++
  }

  #start() {
    this.#sending ??= this.#drain().catch(() => this.#later()).finally(() => {
      this.#sending = undefined
      if (this.#queue.length > 0 && this.#timer === undefined) this.#later()
    })
  }

  async #drain() {
    await Promise.resolve() // what one hook call adds travels together
    while (this.#queue.length > 0) {
      const batch = this.#queue.slice(0, this.#batch)
      const verdict = await this.#post(batch)
      if (verdict === "later") return this.#later()
      this.#failures = 0
      if (verdict === "refused" && batch.length > 1) {
        this.#batch = Math.ceil(batch.length / 2) // find the one that is refused
        continue
      }
      if (verdict === "refused") this.dropped++
      this.#queue.splice(0, batch.length)
      this.#batch = Math.min(BATCH, this.#batch * 2)
    }
  }

  // -> "done" | "later" | "refused"
  async #post(batch) {
    const known = await this.#endpoint.find()
    if (!known) return "later"
    const own = { "content-type": "application/json", authorization: `Bearer ${known.token}`, ...this.#headers }
    const headers = { ...own, ...counted("dropped", this.dropped), ...counted("faults", this.faults) }
    const limit = Math.min(SLOWEST_MS, FIRST_MS * 2 ** this.#failures)
    try {
      const request = { method: "POST", headers, body: JSON.stringify(batch), redirect: "error", signal: AbortSignal.timeout(limit) }
      const answer = await this.#fetch(`${known.url}/v1/progress`, request)
      await answer.arrayBuffer() // frees the connection
      return this.#judge(answer.status)
    } catch {
      this.#endpoint.forget() // refused, reset or too slow: perhaps a new daemon on another port
      return "later"
    }
  }

  #judge(status) {
    if (status >= 200 && status < 300) return "done"
    if (STALE.has(status)) this.#endpoint.forget()
    return REFUSED.has(status) ? "refused" : "later"
  }

  #later() {
    if (this.#timer !== undefined) return
    const [first, most] = BACKOFF_MS
    const wait = Math.min(most, first * 2 ** this.#failures) * (0.75 + this.#random() / 2)
    this.#failures = Math.min(this.#failures + 1, 10)
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#start()
    }, wait)
    this.#timer.unref?.() // never keeps the client alive
  }

  #cancelTimer() {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}

const counted = (name, value) => (value ? { [`x-treewarden-${name}`]: String(value) } : {})
