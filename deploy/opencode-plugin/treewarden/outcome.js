// How a call ended: exit status, a digest of its normalised output, a class token for failures. Reads content, sends none.
import { short } from "./digest.js"

const HEAD = 96 * 1024 // longer outputs: the first and the last part and the length stand for the whole

// What changes from run to run without meaning anything. Counts ("3 failed") stay: they are the outcome.
const MASKS = [
  [/\u001b\[[0-9;?]*[ -/]*[@-~]/g, ""],
  [/\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?/g, "<time>"],
  [/\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? \d{0,2} ?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*[ \d]*/g, "<time>"],
  [/\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b/g, "<time>"],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, "<id>"],
  [/\b(?:ses|msg|prt|call|toolu|req)_[A-Za-z0-9]+/g, "<id>"],
  [/\b0x[0-9a-f]+\b/gi, "<id>"],
  [/\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b/gi, "<id>"],
  [/(?:\/private)?\/(?:tmp|var\/tmp|var\/folders|dev\/shm)\/[^\s:'"),]+/g, "<temp>"],
  [/\b\d+(?:\.\d+)?\s?(?:ns|us|\u00b5s|ms|s|sec|secs|seconds?|minutes?|mins?|m|h|hours?)\b/g, "<duration>"],
  [/\b(pid|PID)[ =:]*\d+/g, "$1 <id>"],
  [/\bport \d+|(?<=(?:localhost|127\.0\.0\.1):)\d+/g, "<port>"],
  [/\b\d{9,}\b/g, "<number>"],
  [/(?<=[\w)\]]):\d+(?::\d+)?\b/g, ":<line>"],
  [/\b([Ll]ines?) \d+(?:-\d+)?/g, "$1 <line>"],
  [/^\s{0,100}\d+[:|]/gm, "<line>|"],
]

export function normalised(text) {
  const part = text.length <= 2 * HEAD ? text : `${text.slice(0, HEAD)}\n...${text.length}...\n${text.slice(-HEAD)}`
  return MASKS.reduce((masked, [pattern, replacement]) => masked.replace(pattern, replacement), part).replace(/(?<![ \t])[ \t]+$/gm, "").trim()
}

export const resultDigest = (text, exit) => short(`${exit ?? ""}\n${normalised(text)}`)

// P025, P112: the status comes from metadata.exit first. null = unknown (opencode: after an abort or a timeout).
export const exitOf = (metadata) => (Number.isInteger(metadata?.exit) ? metadata.exit : null)

export const textOf = (output) => (typeof output === "string" ? output : mcpText(output))

// MCP tools answer {content: [{type: "text", text}]} where built-in ones have a string.
const mcpText = (output) =>
  Array.isArray(output?.content) ? output.content.map((part) => part?.text ?? "").join("\n") : ""

const CLASSES = [
  ["unknown_tool", /unavailable tool|unknown tool|no such tool|tool .{1,60} not found/i],
  ["denied", /rejected permission|permission (?:was )?(?:denied|rejected)|denied by|user has specified a rule|rule which prevents|not allowed to|EACCES|operation not permitted|EPERM|read-only file system/i],
  ["edit_mismatch", /oldString|old_string|multiple matches|no changes to apply|identical|hunk .{0,20}failed|failed to find (?:expected lines|context)|must read the file|has been modified since|before overwriting|patch does not apply/i],
  ["timeout", /timed? ?out|exceeding timeout|ETIMEDOUT|deadline exceeded/i],
  ["auth", /unauthori[sz]ed|authentication|invalid api key|bad credentials|\b401\b/i],
  ["infra", /ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ENOSPC|EMFILE|ENOMEM|no space left|out of memory|cannot allocate|could not resolve host|connection (?:refused|reset)|network is unreachable|service unavailable|\b50[234]\b/i],
  ["notfound", /ENOENT|no such file|file not found|not found|does not exist|cannot find|no module named/i],
  ["parse", /invalid (?:arguments|input|json|parameters)|arguments provided|schema|SyntaxError|unexpected token|JSON|parse error|validation/i],
  ["provider", /rate limit|overloaded|too many requests|\b429\b/i],
]

const classIn = (text, among) =>
  CLASSES.find(([name, pattern]) => (among === undefined || among.has(name)) && pattern.test(text))?.[0]

export const errorClass = (text) => classIn(String(text ?? ""))

// The output of a failing program is about the program, so only what is surely not the program's own doing is named.
const FROM_OUTPUT = new Set(["infra", "auth"])
const BY_EXIT = { 124: "timeout", 126: "denied", 127: "notfound", 137: "infra" }

export function shellError(exit, text) {
  const tail = text.slice(-4000)
  if (exit === null) return /exceeding timeout|timed out/i.test(tail) ? "timeout" : undefined
  return exit === 0 ? undefined : BY_EXIT[exit] ?? classIn(tail, FROM_OUTPUT)
}
