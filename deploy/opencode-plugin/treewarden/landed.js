// The narrow rule (P026-P029): what counts as a change that landed. Everything else, above all reading, does not.
import { createHash } from "node:crypto"
import { execFile } from "node:child_process"
import { readFile, stat } from "node:fs/promises"
import path from "node:path"
import { essential, ownsExit, simpleCommands } from "./command.js"
import { short } from "./digest.js"

const WITH_DIFF = new Set(["edit", "multiedit", "patch", "apply_patch", "write"])
const FILE_LIMIT = 16 * 1024 * 1024
export const LOCAL_MS = 200 // bound of a local look at a file or a repository; beyond it the answer is "unknown"

// Resolves to undefined when work takes longer or fails: a dead network mount must not hold a tool call.
export function within(ms, work) {
  let timer
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, ms, undefined)
    timer.unref?.()
  })
  return Promise.race([work.catch(() => undefined), late]).finally(() => clearTimeout(timer))
}

// -> digest of the file's bytes, "absent", or undefined when unknown (too big, unreadable, slow)
export const fileState = (file) => within(LOCAL_MS, readState(file))

async function readState(file) {
  try {
    const { size } = await stat(file)
    if (size > FILE_LIMIT) return undefined
    return createHash("sha256").update(await readFile(file)).digest("hex").slice(0, 32)
  } catch (error) {
    if (error?.code === "ENOENT") return "absent"
    throw error
  }
}

// P026. write has no diff (measured with 1.18): the sensor compares the content before and after.
export function editLanded(tool, metadata, before, after) {
  if (!WITH_DIFF.has(tool)) return false
  if (typeof metadata?.diff === "string") return metadata.diff.trim() !== ""
  if (tool !== "write" || after === undefined) return false
  return before === undefined ? metadata?.exists === false : before !== after
}

// Files that an edit touched: apply_patch names them in its metadata, the others in their arguments.
export function editedFiles(tool, file, metadata, root) {
  if (!WITH_DIFF.has(tool)) return []
  const listed = (Array.isArray(metadata?.files) ? metadata.files : []).map((entry) => entry?.filePath ?? entry?.path ?? entry)
  const files = [file, metadata?.filepath, ...listed].filter((name) => typeof name === "string" && name !== "")
  return [...new Set(files.map((name) => path.resolve(root || "/", name)))].sort().slice(0, 20)
}

// One digest for the state of all files of one edit.
export async function editState(files) {
  const states = await Promise.all(files.map(fileState))
  if (files.length === 0 || states.includes(undefined)) return undefined
  return files.length === 1 ? states[0] : short(states.join("\n"))
}

const COMMITTED = /^\[[^\]\n]+ [0-9a-f]{7,40}\]/m

// P027 -> the directory of the commit ("" = where the command ran), or undefined if none was made. Where the exit status
// is not git's own (a pipe, `|| true`), git's own "[branch abc1234] ..." line is the evidence.
export function commitMade(command, exit, text) {
  const list = simpleCommands(command)
  for (const [index, { words, cwd }] of list.entries()) {
    const place = commitPlace(essential(words), cwd)
    if (place === undefined) continue
    if (ownsExit(list, index) ? exit === 0 : COMMITTED.test(text)) return place
  }
  return undefined
}

function commitPlace(words, cwd) {
  if (path.basename(words[0] ?? "") !== "git") return undefined
  let place = cwd
  let at = 1
  for (; words[at]?.startsWith("-"); at++) {
    if (words[at] === "-C") place = words[at + 1] ?? cwd
    if (words[at] === "-C" || words[at] === "-c") at++
  }
  if (words[at] !== "commit" || words.slice(at).some((word) => word === "--dry-run" || word === "--help")) return undefined
  return place
}

// The tree that HEAD points at: an --amend without a change has the state that it had before.
export async function commitState(directory) {
  const tree = await within(LOCAL_MS, git(directory, "rev-parse", "HEAD^{tree}"))
  return tree && short(`tree\n${tree}`)
}

const git = (cwd, ...args) =>
  new Promise((resolve, reject) =>
    execFile("git", args, { cwd, timeout: LOCAL_MS }, (error, stdout) => (error ? reject(error) : resolve(stdout.trim()))))
