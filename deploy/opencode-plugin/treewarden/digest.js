// Digests: equal across sessions and machines, content never leaves (P023).
//
// Whitespace policy of the fingerprint: in every string CRLF becomes LF, blanks at line ends and around the whole go; in
// shell commands outside of quotes a run of blanks is one blank. Object keys are sorted; null and undefined are dropped.
// Arguments that are pure wording (a bash call's description) are dropped: reworded retries of one command stay equal.
import { createHash } from "node:crypto"

const WORDING = { bash: ["description"], task: ["description"] }
const SAID_WORDS = 2000

export const sha256 = (text) => createHash("sha256").update(text).digest("hex")
export const short = (text) => sha256(text).slice(0, 32)

const tidy = (text) => text.replace(/\r\n?/g, "\n").replace(/(?<![ \t])[ \t]+$/gm, "").trim()

// Quoted parts are kept as they are: echo "a  b" and echo "a b" differ.
const tidyCommand = (text) =>
  tidy(text).replace(/'[^']*'|"(?:\\.|[^"\\])*"|[ \t]+/g, (part) => (/^[ \t]/.test(part) ? " " : part))

export function canonical(value) {
  if (typeof value === "string") return tidy(value)
  if (Array.isArray(value)) return value.map((item) => canonical(item) ?? null)
  if (value === null || typeof value !== "object") return value ?? undefined
  const entries = Object.keys(value).sort().map((key) => [key, canonical(value[key])])
  return Object.fromEntries(entries.filter(([, item]) => item !== undefined))
}

export function fingerprint(tool, args) {
  const plain = canonical(args ?? {})
  const kept = typeof plain === "object" && !Array.isArray(plain) ? { ...plain } : { value: plain }
  for (const key of WORDING[tool] ?? []) delete kept[key]
  if (typeof args?.command === "string") kept.command = tidyCommand(args.command)
  return sha256(`${tool}\n${JSON.stringify(kept)}`)
}

// The words of a text: NFKC, casefold, letters only; the first 2000 of them.
export const words = (text) =>
  (text.normalize("NFKC").toLowerCase().match(/\p{L}+/gu) ?? []).slice(0, SAID_WORDS)

// said: digest of the words; said_sim: 64-bit simhash of the word bigrams (of the one word, if there is one only), each
// hashed to the first 8 bytes of its sha256. Texts without a letter have neither.
export function saidDigests(text) {
  const list = words(text)
  if (list.length === 0) return {}
  return { said: short(list.join(" ")), said_sim: simhash(bigrams(list)) }
}

const bigrams = (list) => (list.length < 2 ? list : list.slice(1).map((word, at) => `${list[at]} ${word}`))

function simhash(features) {
  const votes = new Array(64).fill(0)
  for (const feature of features) {
    const bytes = createHash("sha256").update(feature).digest()
    for (let bit = 0; bit < 64; bit++) votes[bit] += (bytes[bit >> 3] >> (7 - (bit & 7))) & 1 ? 1 : -1
  }
  let value = 0n
  for (const vote of votes) value = (value << 1n) | (vote > 0 ? 1n : 0n)
  return value.toString(16).padStart(16, "0")
}

// Agent names may hold blanks and more; headers and events carry the slug (P014).
export function slug(name) {
  const plain = String(name ?? "").normalize("NFKD").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "")
  return plain.slice(0, 80) || undefined
}
