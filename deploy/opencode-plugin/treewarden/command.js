// Shell commands, read well enough to say what ran and whether the exit status is that command's own. Not a shell: an
// unusual construct makes the reading coarser (masked, no words), never wrong in the landed direction.

const WRAPPERS = new Set(["sudo", "time", "nohup", "command", "exec", "nice", "stdbuf", "env"])
const RUNNERS = [["uv", "run"], ["poetry", "run"], ["pipenv", "run"], ["pdm", "run"], ["hatch", "run"], ["bundle", "exec"],
  ["npx"], ["bunx"], ["pnpx"], ["pnpm", "exec"], ["pnpm", "dlx"], ["yarn", "exec"]]
const PYTHON = /^(?:.*\/)?python[\d.]*$/

// -> [{words, before, after, cwd}]: the simple commands in order, each with the operators around it ("", "&&", "||", ";",
// "|", "&") and the directory that a preceding `cd` chose.
export function simpleCommands(text) {
  const list = []
  let current = { words: [], before: "" }
  let cwd = ""
  const finish = (operator) => {
    if (current.words.length > 0) {
      list.push({ ...current, after: operator, cwd })
      if (current.words[0] === "cd" && current.words[1]) cwd = joined(cwd, current.words[1])
    }
    current = { words: [], before: operator }
  }
  for (const token of tokens(text.replace(HEREDOC, ""))) {
    if (token.operator) finish(token.operator)
    else current.words.push(token.word)
  }
  finish("")
  return list
}

const HEREDOC = /<<-?\s*(['"]?)(\w+)\1(?=[^\n]*\n)[\s\S]*?\n[ \t]*\2(?!\w)/g // its body is data, not commands

const joined = (cwd, next) => (next.startsWith("/") || cwd === "" ? next : `${cwd}/${next}`).replace(/\/+$/, "") || "/"

function* tokens(text) {
  const pattern = /(?<=^|[\s;&|])#[^\n]*|((?:'[^']*'|"(?:\\[\s\S]|[^"\\])*"|\\[\s\S]|\d{0,3}>{1,2}&\d|&>{1,2}|[^\s;&|'"\\\n])+)|(&&|\|\||\|&|[;&|\n])|[^\S\n]+/g
  let match
  while ((match = pattern.exec(text)) !== null) {
    if (match[0] === "") {
      pattern.lastIndex++
      continue
    }
    if (match[2]) yield { operator: match[2] === "\n" ? ";" : match[2] === "|&" ? "|" : match[2] }
    else if (match[1]) yield { word: unquoted(match[1]) }
  }
}

const unquoted = (word) =>
  word.replace(/'([^']*)'|"((?:\\[\s\S]|[^"\\])*)"|\\([\s\S])/g, (_, single, double, escaped) =>
    single ?? (double !== undefined ? double.replace(/\\([\s\S])/g, "$1") : escaped))

// The words that matter: no environment assignments, wrappers, runners or redirections; `python -m x` is `x`.
export function essential(words) {
  let rest = withoutRedirections(words)
  for (let before = -1; before !== rest.length; ) {
    before = rest.length
    rest = withoutPrefix(rest)
  }
  return rest
}

function withoutPrefix(words) {
  const [first, second] = words
  if (first === undefined) return words
  if (/^[A-Za-z_]\w*=/.test(first) || WRAPPERS.has(first) || first === "(" || first === "{" || first === "!") return words.slice(1)
  if (first === "timeout") return words.slice(words.findIndex((word, at) => at > 0 && !word.startsWith("-")) + 1 || 1)
  if (PYTHON.test(first) && second === "-m") return words.slice(2)
  const runner = RUNNERS.find((parts) => parts.every((part, at) => words[at] === part))
  return runner ? words.slice(runner.length) : words
}

const REDIRECTION = /^(?:\d*|&)(?:>{1,2}|<{1,3})(?:&\d)?/

function withoutRedirections(words) {
  const kept = []
  for (let at = 0; at < words.length; at++) {
    const found = words[at].match(REDIRECTION)
    if (!found) kept.push(words[at])
    else if (found[0] === words[at] && !/&\d$/.test(words[at])) at++ // the file name is the next word
  }
  return kept
}

// Does the exit status of the whole line speak for this command? Not when something after it can hide a failure.
export function ownsExit(list, index) {
  const rest = list.slice(index)
  return rest.every((command, at) => command.after === "" || (command.after === "&&" && at < rest.length - 1))
}

const WRITING = /^(?:tee|mv|cp|rm|patch|touch|truncate|install|ln|mkdir|rsync|unzip|tar)$/
const GIT_WRITING = /^(?:apply|checkout|restore|revert|reset|stash|merge|rebase|cherry-pick|am|pull|switch|mv|rm)$/

// An output redirection into a file: `> f`, `>>f`, `1> f`; not of errors, not into /dev/null or another descriptor.
const writesTo = (word, next) => {
  const found = word.match(/^(?:1|&)?>{1,2}(?!&)(.*)$/)
  return Boolean(found) && (found[1] || next) !== "/dev/null"
}

// May this command line have changed files? Only a gate of the red-to-green rule (T42), so generous.
export function mayWrite(text) {
  return simpleCommands(text).some(({ words }) => {
    const [verb, ...rest] = essential(words)
    if (words.some((word, at) => writesTo(word, words[at + 1]))) return true
    if (verb === "sed" || verb === "perl") return rest.some((word) => /^-\w*i/.test(word))
    if (verb === "git") return GIT_WRITING.test(rest.find((word) => !word.startsWith("-")) ?? "")
    return WRITING.test(verb ?? "") || rest.some((word) => /^--(?:fix|write|in-place)$/.test(word))
  })
}
