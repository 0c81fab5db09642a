// The sensor: what opencode reports goes in, progress events (wire format v1) go to the daemon. Knows nothing of hooks;
// the shells translate (P136).
import { randomBytes } from "node:crypto"
import { Once } from "./bounded.js"
import { slug } from "./digest.js"
import { Endpoint } from "./endpoint.js"
import { Messages } from "./messages.js"
import { Sender } from "./sender.js"
import { Sessions } from "./sessions.js"
import { ToolCalls } from "./tools.js"
import { SENSOR, VERSION } from "./version.js"

// One sender for all instances of a process: opencode makes one instance of a plugin per project directory.
let shared
const sharedSender = () => (shared ??= new Sender({ endpoint: new Endpoint(), headers: { "x-treewarden-sensor": SENSOR } }))

export function createSensor(input, options = {}) {
  const lookup = async (id) => (await input.client?.session?.get?.({ path: { id } }))?.data
  return new Sensor({ root: input.worktree && input.worktree !== "/" ? input.worktree : input.directory, lookup, ...options })
}

export class Sensor {
  #sender
  #now
  #sessions
  #tools
  #messages
  #once = new Once(2000)
  #prefix = randomBytes(6).toString("hex")
  #count = 0
  #tail = Promise.resolve()

  constructor({ root, lookup = async () => undefined, sender = sharedSender(), now = Date.now }) {
    this.#sender = sender
    this.#now = now
    const emit = (session, fields) => this.#emit(session, fields)
    this.#sessions = new Sessions(lookup, now)
    this.#tools = new ToolCalls(root || "/", emit)
    this.#messages = new Messages(emit, this.#sessions)
  }

  async beforeTool(call, args) {
    if (call.tool === "task") this.#sessions.dispatching(call.sessionID, call.callID)
    await this.#tools.before(call, args)
  }

  async afterTool(call, output) {
    if (call.tool === "task") this.#sessions.dispatched(call.sessionID, call.callID)
    await this.#tools.after(call, output)
  }

  // P014. Also called for the title and compaction agents, whose names a lease may need.
  async headers({ sessionID, agent }) {
    const parent = await this.#sessions.parent(sessionID)
    const name = slug(agent)
    return {
      "X-Router-Conversation": sessionID,
      ...(name ? { "X-Router-Agent": name } : {}),
      ...(parent ? { "X-Router-Parent": parent } : {}),
      "x-treewarden-plugin": VERSION,
    }
  }

  // One event of the client's bus: {type, properties}
  async event({ type, properties }) {
    await this[HANDLERS[type]]?.(properties ?? {})
  }

  fault() {
    this.#sender.fault()
  }

  // Everything said so far is handed to the daemon, within the time.
  async flush(ms) {
    await this.#tail
    await this.#sender.flush(ms)
  }

  onSession({ info }) {
    this.#sessions.learn(info)
    const reverted = info?.revert?.messageID
    if (reverted && this.#once.first(`reverted ${info.id} ${reverted}`)) this.#emit(info.id, { kind: "reverted" })
  }

  onDeleted({ info }) {
    if (info?.id) this.#emit(info.id, { kind: "deleted" })
  }

  onMessage({ info }) {
    this.#messages.message(info)
  }

  async onPart({ part }) {
    if (part?.type !== "tool") return part && this.#messages.part(part)
    if (part.tool === "task" && part.state?.status === "error") this.#sessions.dispatched(part.sessionID, part.callID)
    return this.#tools.part(part)
  }

  onStatus({ sessionID, status }) {
    if (status?.type === "busy") this.#messages.status(sessionID, true)
    if (status?.type !== "retry" || !this.#once.first(`retry ${sessionID} ${status.attempt} ${status.next}`)) return
    this.#emit(sessionID, { kind: "retry", error: "provider" })
  }

  onIdle({ sessionID }) {
    this.#messages.status(sessionID, false)
    this.#emit(sessionID, { kind: "idle" })
  }

  onCompacted({ sessionID }) {
    this.#emit(sessionID, { kind: "compaction" })
  }

  onPermission({ id, sessionID, permission }) {
    this.#emit(sessionID, { kind: "open", call_id: id, target: `permission ${slug(permission) ?? ""}`.trim() })
  }

  onQuestion({ id, sessionID }) {
    this.#emit(sessionID, { kind: "open", call_id: id, target: "question" })
  }

  onReply({ sessionID, requestID, permissionID }) {
    this.#emit(sessionID, { kind: "close", call_id: requestID ?? permissionID })
  }

  // In order of call, whatever a look-up of a parent takes. Never throws.
  #emit(session, fields) {
    if (typeof session !== "string" || session === "") return
    const id = `${this.#prefix}-${(this.#count++).toString(36)}`
    const event = { v: 1, id, t: this.#now() / 1000, session_id: session, ...fields, source: "plugin" }
    this.#tail = this.#tail.then(async () => {
      const parent = await this.#sessions.parent(session)
      this.#sender.add({ ...event, parent_session_id: parent ?? undefined, agent: slug(this.#sessions.of(session).agent) })
    }).catch(() => this.#sender.fault())
  }
}

// Bus event -> method. What is not here is of no interest.
const HANDLERS = {
  "session.created": "onSession",
  "session.updated": "onSession",
  "session.deleted": "onDeleted",
  "session.status": "onStatus",
  "session.idle": "onIdle",
  "session.compacted": "onCompacted",
  "message.updated": "onMessage",
  "message.part.updated": "onPart",
  "permission.asked": "onPermission",
  "permission.updated": "onPermission", // before 1.1
  "permission.replied": "onReply",
  "question.asked": "onQuestion",
  "question.replied": "onReply",
  "question.rejected": "onReply",
}
