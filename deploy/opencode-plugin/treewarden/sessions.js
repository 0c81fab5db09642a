// What is known of sessions: parent and agent. Bounded; parents are learned from events or, once, by a bounded look-up.
import { BoundedMap } from "./bounded.js"
import { within } from "./landed.js"

const SESSIONS = 2000
const LOOKUP_MS = 300
const RETRY_MS = 30_000

export class Sessions {
  #known = new BoundedMap(SESSIONS)
  #lookup
  #now

  // lookup(id) -> Promise<{parentID?} | undefined>: a call of the client's own API
  constructor(lookup, now = Date.now) {
    this.#lookup = lookup
    this.#now = now
  }

  get size() {
    return this.#known.size
  }

  of(id) {
    return this.#known.obtain(id, () => ({ parent: undefined, asked: 0, agent: undefined, tasks: new Set() }))
  }

  learn(info) {
    if (info?.id) this.of(info.id).parent = info.parentID ?? null
  }

  // A session dispatches while it has a task call under way; prompts that its children get then are its own.
  dispatching(id, call) {
    this.of(id).tasks.add(call)
  }

  dispatched(id, call) {
    this.of(id).tasks.delete(call)
  }

  isDispatched(id) {
    const { parent } = this.of(id)
    return Boolean(parent) && this.of(parent).tasks.size > 0
  }

  // -> parent id, null (a root) or undefined (still unknown: the daemon takes a late parent)
  async parent(id) {
    const session = this.of(id)
    if (session.parent !== undefined) return session.parent
    const now = this.#now()
    if (now - session.asked < RETRY_MS && session.asked) return session.asking
    session.asked = now
    session.asking = within(LOOKUP_MS, Promise.resolve().then(() => this.#lookup(id))).then((info) => {
      if (info && session.parent === undefined) session.parent = info.parentID ?? null
      session.asking = undefined
      return session.parent
    })
    return session.asking
  }
}
