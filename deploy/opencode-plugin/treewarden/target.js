// What a call touched: a coarse target for people, a slice digest for the judge.
//
// The target is the only readable thing that leaves the client (P024), so it is an allow-list (T50): known verbs, known
// kinds of second words, plain paths. Everything else is a keyed hash whose key is drawn per process and never leaves it:
// equal words stay equal within a session, and a short secret cannot be guessed from its hash.
import { createHmac, randomBytes } from "node:crypto"
import { homedir } from "node:os"
import path from "node:path"
import { essential, simpleCommands } from "./command.js"
import { canonical, short } from "./digest.js"

const KEY = randomBytes(32)
const PLAIN_PATH = /^(?:~|\.{1,2})?\/?[\w.@+-]{1,64}(?:\/[\w.@+-]{1,64})*\/?$/
const FILE_NAME = /\.[a-z]{1,5}[0-9]?$/i
const PLAIN_WORD = /^[a-z][a-z]*(?:[:_-][a-z]+)*$/
const LONG_RANDOM = /(?=[^/]*\d)(?=[^/]*[a-zA-Z])[A-Za-z0-9_+=-]{20,}/ // looks like a token or key
const MAX = 200

// The second word of these is a subcommand, of those a file. Of any other verb it may be anything and is hashed.
const SUBCOMMANDS = new Set(("git npm pnpm yarn bun deno cargo go make just docker podman kubectl helm terraform pip pip3 uv " +
  "poetry tox nox ruff gh systemctl mvn gradle gradlew dotnet mix swift zig bundle rake rails composer apt apt-get brew hatch " +
  "pdm conda nx turbo lerna biome prisma alembic django-admin flutter dart sbt cabal stack opam").split(" "))
const FILES = new Set(("cat sed awk head tail less wc ls find tree stat file diff cmp sort uniq cp mv rm mkdir touch chmod ln du " +
  "python python3 node ruby perl php bash sh zsh source tsx ts-node java pytest py.test jest vitest mocha mypy pyright flake8 pylint black isort " +
  "eslint prettier tsc rspec phpunit ctest bats shellcheck cd test xxd hexdump strings jq yq tar unzip zip gcc clang g++ rustc javac").split(" "))
const OTHERS = new Set(("echo printf export grep rg ag fd curl wget ssh scp rsync ps kill pkill sleep date env which type true false " +
  "pwd whoami id uname df free top lsof netstat ss ping dig psql mysql sqlite3 redis-cli mongosh aws gcloud az openssl base64 tee " +
  "xargs watch read set unset seq nproc locale nl tr cut paste comm column nc golangci-lint pre-commit unittest").split(" "))

const hashed = (word) => `h:${createHmac("sha256", KEY).update(word).digest("hex").slice(0, 10)}`

export function coarsePath(file, root) {
  const absolute = path.isAbsolute(file) ? file : path.resolve(root || "/", file)
  const inside = root && root !== "/" && (absolute === root || absolute.startsWith(`${root}/`))
  const shown = inside ? path.relative(root, absolute) || "." : absolute.replace(new RegExp(`^${escaped(homedir())}(?=/|$)`), "~")
  return shown.split("/").map((part) => (part === "" || (PLAIN_PATH.test(part) && !LONG_RANDOM.test(part)) || part === "~" ? part : hashed(part)))
    .join("/").slice(0, MAX)
}

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")

const plainPath = (word) => PLAIN_PATH.test(word) && !LONG_RANDOM.test(word) && (word.includes("/") || FILE_NAME.test(word))

export function commandTarget(command, root) {
  const list = simpleCommands(command).map(({ words }) => essential(words)).filter((words) => words.length > 0)
  const words = list.find(([verb]) => verb !== "cd") ?? list[0]
  if (!words) return "shell"
  const [first, second] = words
  const verb = path.basename(first)
  if (SUBCOMMANDS.has(verb)) return two(verb, PLAIN_WORD.test(second ?? "") && second.length <= 24 ? second : masked(second))
  if (FILES.has(verb)) return two(verb, fileWord(words.slice(1), root))
  if (OTHERS.has(verb)) return two(verb, masked(second))
  return plainPath(first) ? coarsePath(first, root) : hashed(first)
}

const two = (verb, second) => (second ? `${verb} ${second}` : verb).slice(0, MAX)

// Flags are left out: some hold the secret itself (-pSECRET) or make the next word one.
const masked = (word) => (word === undefined || word.startsWith("-") ? "" : hashed(word))

function fileWord(rest, root) {
  const [second] = rest
  if (second === undefined) return ""
  const file = second.startsWith("-") ? rest.find((word) => plainPath(word)) : second
  if (file === undefined) return ""
  return plainPath(file) ? coarsePath(file, root) : masked(file)
}

// args -> the path that a file tool works on, or undefined
export const fileOf = (args) => [args?.filePath, args?.path, args?.file].find((value) => typeof value === "string" && value !== "")

const PATTERNS = new Set(["grep", "glob", "list", "codesearch"])
const COMMANDS = new Set(["bash", "shell"])

export const isCommand = (tool, args) => COMMANDS.has(tool) && typeof args?.command === "string"

export function target(tool, args, root) {
  if (isCommand(tool, args)) return commandTarget(args.command, root)
  if (tool === "task" && typeof args?.subagent_type === "string") return two("task", PLAIN_WORD.test(args.subagent_type) ? args.subagent_type : "")
  const file = fileOf(args)
  if (file === undefined) return PLAIN_WORD.test(tool) ? tool : hashed(tool)
  return PATTERNS.has(tool) ? two(tool, coarsePath(file, root)) : coarsePath(file, root)
}

// The digest of what was touched, or undefined where the exact arguments are the better key (edits, other tools).
// Reads: path and range, missing bounds as opencode defaults them. Searches: place and pattern. Shell: the files and
// numbers named in the command, sorted: `sed -n 1,50p f` and `head -n 50 f` differ, reordered flags do not.
export function slice(tool, args, root) {
  const file = fileOf(args)
  if (tool === "read" && file) return short(`read\n${path.resolve(root || "/", file)}\n${args.offset ?? 0}\n${args.limit ?? 2000}`)
  if (PATTERNS.has(tool)) return short(`${tool}\n${path.resolve(root || "/", file ?? ".")}\n${JSON.stringify(canonical({ ...args, path: undefined }))}`)
  return isCommand(tool, args) ? commandSlice(args.command) : undefined
}

function commandSlice(command) {
  const named = simpleCommands(command).flatMap(({ words }) => essential(words).slice(1))
  const files = named.filter((word) => !word.startsWith("-") && (word.includes("/") || FILE_NAME.test(word)))
  if (files.length === 0) return undefined
  const numbers = named.flatMap((word) => (files.includes(word) ? [] : word.match(/\d+/g) ?? []))
  return short(`shell\n${[...new Set(files)].sort().join("\n")}\n${numbers.join(",")}`)
}
