// Messages: finished assistant messages become turns, their texts digests, and user messages are told apart from injected
// ones (synthetic, noReply, our own marker, continuation hooks, a parent's dispatch): those are never the user.
import { BoundedMap, Once } from "./bounded.js"
import { saidDigests } from "./digest.js"

const MESSAGES = 4000
const SESSIONS = 500

// Prompts that hooks and routers send in the user's name. The first is ours.
export const OWN_MARKER = "[treewarden]"
const CONTINUATIONS = [OWN_MARKER, "[SYSTEM DIRECTIVE", "[SYSTEM REMINDER", "<system-reminder>", "Continue if you have next steps"]

export const isContinuation = (text) => CONTINUATIONS.some((start) => text.trimStart().startsWith(start))

const ERRORS = { ProviderAuthError: "auth", APIError: "provider", MessageOutputLengthError: "provider", ContextOverflowError: "provider",
  StructuredOutputError: "parse", UnknownError: "provider" }

export class Messages {
  #emit
  #sessions
  #roles = new BoundedMap(MESSAGES) // message id -> "user" | "assistant" | "summary"
  #once = new Once(MESSAGES)
  #waiting = new BoundedMap(SESSIONS) // session id -> user messages that nobody has answered yet
  #busy = new BoundedMap(SESSIONS)

  constructor(emit, sessions) {
    this.#emit = emit
    this.#sessions = sessions
  }

  message(info) {
    if (info?.role === "user") this.#user(info)
    if (info?.role === "assistant") this.#assistant(info)
  }

  part(part) {
    const role = this.#roles.get(part.messageID)
    if (role === "user") this.#userPart(part)
    if (role === "assistant" && part.time?.end && this.#once.first(`said ${part.id}`)) this.#said(part)
  }

  status(session, busy) {
    this.#busy.set(session, busy)
    if (!busy) this.#settle(session, undefined)
  }

  interrupted(session, key) {
    if (this.#once.first(`interrupt ${key}`)) this.#emit(session, { kind: "interrupt" })
  }

  #user(info) {
    if (this.#roles.has(info.id)) return
    this.#roles.set(info.id, "user")
    if (info.agent) this.#sessions.of(info.sessionID).agent = info.agent
    const dispatched = this.#sessions.isDispatched(info.sessionID)
    const entry = { id: info.id, human: false, machine: dispatched, service: false, queued: this.#busy.get(info.sessionID) === true }
    this.#waiting.obtain(info.sessionID, () => []).push(entry)
  }

  #userPart(part) {
    const entry = this.#waiting.get(part.sessionID)?.find(({ id }) => id === part.messageID)
    if (!entry) return
    if (part.type === "compaction") entry.service = true
    else if (part.type !== "text") entry.human = true // an attached file, an agent mention, a slash command's subtask
    else if (isContinuation(part.text ?? "")) entry.machine = true
    else if (!part.synthetic && !part.ignored) entry.human = true
  }

  // An assistant message answers `answered`: by then all parts of the user messages before it are known. One that came
  // while the session was idle and that nobody answers was only put there (noReply); one that was typed while the agent
  // worked is answered together with a later one.
  #settle(session, answered) {
    const list = this.#waiting.get(session) ?? []
    if (list.length === 0) return
    const end = answered === undefined ? list.length : list.findIndex(({ id }) => id === answered) + 1
    for (const entry of list.splice(0, end)) this.#prompt(session, entry, answered)
  }

  #prompt(session, { id, human, machine, service, queued }, answered) {
    if (service) return
    const injected = machine || !human || !(queued || id === answered)
    this.#emit(session, injected ? { kind: "injected", injected: true, round: id } : { kind: "user", round: id })
  }

  #assistant(info) {
    const summary = info.summary === true
    if (!this.#roles.has(info.id)) {
      this.#roles.set(info.id, summary ? "summary" : "assistant")
      this.#settle(info.sessionID, info.parentID)
      if (!summary && info.agent) this.#sessions.of(info.sessionID).agent = info.agent
    }
    if ((info.time?.completed || info.error) && this.#once.first(`turn ${info.id}`)) this.#turn(info, summary)
  }

  #turn(info, summary) {
    const aborted = info.error?.name === "MessageAbortedError"
    const error = info.error && !aborted ? ERRORS[info.error.name] ?? "provider" : undefined
    this.#emit(info.sessionID, { kind: "turn", round: info.id, model: info.modelID, provider: info.providerID, error, ...usage(info) })
    if (aborted) this.interrupted(info.sessionID, info.id)
    else if (summary && error) this.#emit(info.sessionID, { kind: "compaction", round: info.id, error })
    else if (!summary && info.finish === "stop") this.#emit(info.sessionID, { kind: "done", round: info.id })
  }

  #said(part) {
    const kind = { text: "assistant", reasoning: "reasoning" }[part.type]
    if (!kind || !part.text) return
    this.#emit(part.sessionID, { kind, round: part.messageID, ...saidDigests(part.text) })
  }
}

// opencode counts input without the cached part and output without the reasoning; context_tokens is what was sent.
export function usage({ tokens, cost }) {
  const count = (value) => (Number.isFinite(value) && value > 0 ? Math.round(value) : 0)
  const cached = count(tokens?.cache?.read)
  const prompt = count(tokens?.input) + cached + count(tokens?.cache?.write)
  const completion = count(tokens?.output) + count(tokens?.reasoning)
  const cost_usd = Number.isFinite(cost) && cost >= 0 ? cost : undefined
  return { tokens: { prompt, cached, completion }, cost_usd, context_tokens: prompt }
}
