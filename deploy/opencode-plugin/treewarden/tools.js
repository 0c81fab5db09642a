// One progress event per tool call, failed calls included. Completed calls come through the after hook (P021), which
// opencode does not call for failures: those come as message parts. Whichever is first for a call id wins.
import { BoundedMap, Once } from "./bounded.js"
import { fingerprint } from "./digest.js"
import { commitMade, commitState, editedFiles, editLanded, editState, fileState } from "./landed.js"
import { errorClass, exitOf, resultDigest, shellError, textOf } from "./outcome.js"
import { fileOf, isCommand, slice, target } from "./target.js"
import { mayWrite } from "./command.js"
import { RedRuns } from "./testrun.js"
import path from "node:path"

const CALLS = 4000
const CONVERSATIONS = 500
const ABORTED = /^(?:Tool execution aborted|Cancelled|Aborted|Task cancelled)/i

export class ToolCalls {
  #root
  #emit
  #done = new Once(CALLS)
  #rounds = new BoundedMap(CALLS)
  #before = new BoundedMap(CALLS)
  #red = new BoundedMap(CONVERSATIONS)
  #edits = 0 // of the whole project: a child's edit turns its parent's test green as well

  constructor(root, emit) {
    this.#root = root
    this.#emit = emit
  }

  // Called before the tool runs, so that a write can be compared with what was there.
  async before({ tool, sessionID, callID }, args) {
    if (tool !== "write" || !fileOf(args)) return
    this.#before.set(`${sessionID} ${callID}`, await fileState(path.resolve(this.#root, fileOf(args))))
  }

  async after({ tool, sessionID, callID, args }, output) {
    const key = `${sessionID} ${callID}`
    if (!this.#done.first(key)) return
    const facts = this.#facts(tool, args, textOf(output?.output ?? output), output?.metadata ?? {})
    const landing = await this.#landing(tool, args, output?.metadata ?? {}, facts, { key, sessionID })
    this.#send(tool, sessionID, callID, args, { ...facts.event, ...landing })
  }

  // A tool part of a message: the round of its call, and the outcome of a call that failed.
  async part(part) {
    const { tool, sessionID, callID, messageID, state } = part
    const key = `${sessionID} ${callID}`
    this.#rounds.set(key, messageID)
    if (state?.status === "completed") return this.after({ tool, sessionID, callID, args: state.input }, state)
    if (state?.status !== "error" || !this.#done.first(key)) return
    this.#before.delete(key)
    const aborted = ABORTED.test(state.error ?? "")
    const event = aborted ? { exit: null } : { exit: 1, error: errorClass(state.error), result: resultDigest(textOf(state.error), 1) }
    this.#send(tool, sessionID, callID, state.input, event)
  }

  #facts(tool, args, text, metadata) {
    if (tool === "invalid") return { text, exit: 1, event: { exit: 1, error: errorClass(args?.error) ?? "parse", result: resultDigest(text, 1) } }
    const shell = isCommand(tool, args)
    const exit = shell ? exitOf(metadata) : 0
    const error = shell ? shellError(exit, text) : undefined
    return { text, exit, event: { exit, error, result: resultDigest(text, exit) } }
  }

  // -> {landed, state}
  async #landing(tool, args, metadata, { text, exit }, { key, sessionID }) {
    if (isCommand(tool, args)) return this.#shellLanding(args, text, exit, sessionID)
    const before = this.#before.get(key)
    this.#before.delete(key)
    const state = await editState(editedFiles(tool, fileOf(args), metadata, this.#root))
    const landed = editLanded(tool, metadata, before, state)
    if (landed) this.#edits++
    return { landed, state }
  }

  async #shellLanding(args, text, exit, sessionID) {
    const command = args.command
    const fixed = this.#red.obtain(sessionID, () => new RedRuns()).observe(command, exit, text, this.#edits)
    if (mayWrite(command)) this.#edits++
    const place = commitMade(command, exit, text)
    if (place === undefined) return { landed: fixed }
    return { landed: true, state: await commitState(path.resolve(this.#root, args.workdir ?? "", place)) }
  }

  #send(tool, sessionID, callID, args, event) {
    this.#emit(sessionID, {
      tool: String(tool).slice(0, 200),
      call_id: callID,
      round: this.#rounds.get(`${sessionID} ${callID}`),
      fingerprint: fingerprint(tool, args),
      slice: slice(tool, args, this.#root),
      target: target(tool, args ?? {}, this.#root),
      landed: false,
      ...event,
    })
  }
}
