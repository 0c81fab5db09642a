// Red to green (P028, T42). A test or lint command that passes has landed something only if a run of the same or a
// narrower selection was red before, and something was edited in between; once per selection until it is red again.
import { essential, ownsExit, simpleCommands } from "./command.js"

const SELECTIONS = 64

// TEST_COMMAND: verb -> the subcommands that test, lint or type-check; null = the verb alone does.
const SCRIPTS = /^(?:test|tests|lint|check|typecheck|type-check|tsc|unit|e2e|integration|ci|verify|vet|clippy|format-check)(?:[:_-][\w:-]+)?$/
const RUNNER = { subcommand: SCRIPTS, skip: /^(?:run|run-script)$/ }
const VERBS = {
  ...Object.fromEntries(("pytest py.test unittest tox nox mypy pyright flake8 pylint jest vitest mocha ava eslint tsc rspec phpunit ctest bats " +
    "shellcheck golangci-lint pre-commit nosetests stylelint biome standard xo").split(" ").map((verb) => [verb, null])),
  ...Object.fromEntries("npm pnpm yarn bun make just rake mix gradle gradlew mvn turbo nx composer hatch deno".split(" ").map((verb) => [verb, RUNNER])),
  ruff: { subcommand: /^(?:check|format)$/ },
  go: { subcommand: /^(?:test|vet)$/ },
  cargo: { subcommand: /^(?:test|check|clippy|nextest)$/ },
  dotnet: { subcommand: /^test$/ },
  swift: { subcommand: /^test$/ },
  zig: { subcommand: /^test$/ },
  sbt: { subcommand: /^test$/ },
  node: { subcommand: /^--test$/ },
}
const NOT_A_RUN = /^(?:--version|--help|-h|-V|--collect-only|--co|--list|--listTests|--fixtures|--dry-run|-n=0|--setup-plan)$/

// Flags that choose what runs. Those with a value take the next word unless it comes after "=".
const FILTERS = new Set(("-k -m -t --grep -g --run -run --filter --testNamePattern --testPathPattern --ignore --deselect --tests -Dtest " +
  "--select --lf --last-failed --ff --sw --stepwise --only --changed --onlyChanged -o --bail-selection --testPathPatterns --exclude --skip --package -p").split(" "))
const WITHOUT_VALUE = new Set("--lf --last-failed --ff --sw --stepwise --changed --onlyChanged -o".split(" "))
const VALUES = new Set(("-n --maxfail --tb -c --config --reporter -j --jobs --timeout --cov --durations -W --workers --seed --rootdir --format " +
  "--output-format --log-level -C --prefix --color --project -r").split(" "))
const NEGATIVE = new Set(["--ignore", "--deselect", "--exclude", "--skip"])

// words -> {tool, paths, filters} of one test command, or undefined
export function selection(words, cwd = "") {
  const rest = essential(words)
  const verb = (rest.shift() ?? "").replace(/^.*\//, "")
  if (!Object.hasOwn(VERBS, verb) || rest.some((word) => NOT_A_RUN.test(word))) return undefined
  const tool = subcommands(VERBS[verb], verb, rest)
  return tool && { tool: cwd ? `${cwd}\n${tool}` : tool, ...arranged(rest) }
}

// Takes the subcommand off the front of rest.
function subcommands(rule, verb, rest) {
  if (rule === null) return verb
  while (rule.skip?.test(rest[0] ?? "")) rest.shift()
  return rule.subcommand.test(rest[0] ?? "") ? `${verb} ${rest.shift()}` : undefined
}

function arranged(rest) {
  const found = { paths: [], filters: [] }
  for (let at = 0; at < rest.length; at++) {
    const [flag, value] = split(rest[at])
    if (!flag.startsWith("-")) found.paths.push(flag.replace(/^\.\//, "").replace(/\/(?:\.\.\.)?$/, "") || ".")
    else if (FILTERS.has(flag)) found.filters.push(WITHOUT_VALUE.has(flag) ? flag : `${flag}=${value ?? rest[++at] ?? ""}`)
    else if (VALUES.has(flag) && value === undefined) at++
  }
  return { paths: found.paths.filter((path) => path !== "." && path !== "...").sort(), filters: found.filters.sort() }
}

const split = (word) => {
  const at = word.startsWith("-") ? word.indexOf("=") : -1
  return at < 0 ? [word] : [word.slice(0, at), word.slice(at + 1)]
}

const within = (inner, outer) => inner === outer || inner.startsWith(`${outer}/`) || inner.startsWith(`${outer}::`)

// Does a run of `green` include everything that `red` selected?
export function covers(green, red) {
  if (green.tool !== red.tool) return false
  const whole = green.paths.length === 0
  const paths = whole || (red.paths.length > 0 && red.paths.every((path) => green.paths.some((wide) => within(path, wide))))
  return paths && green.filters.every((filter) => red.filters.includes(filter))
}

const FAILED_TEXT = /\b[1-9]\d* (?:failed|failing|failures?|errors?|problems?)\b|^(?:FAILED|FAIL|ERROR)\b|\bAssertionError\b|error TS\d+|npm ERR!|npm error|test result: FAILED|\bnot ok \d/m
const PASSED_TEXT = /\b[1-9]\d* (?:passed|passing)\b|test result: ok|All checks passed|Success: no issues|^ok\s+\S+|^OK\b|# fail 0\b|Tests:\s+\d+ passed|0 problems/m

// "red" | "green" | undefined. The exit status speaks if it is the test's own; the text is the fallback (P112).
export function outcome(owned, exit, text) {
  if (owned) return exit === null ? undefined : exit === 0 ? "green" : "red"
  if (FAILED_TEXT.test(text)) return "red"
  return PASSED_TEXT.test(text) ? "green" : undefined
}

const keyOf = ({ tool, paths, filters }) => JSON.stringify([tool, paths, filters])

// The red selections of one conversation. `edits` is a counter that grows with everything edited in the project.
export class RedRuns {
  #red = new Map()

  // -> true when this command turned a red selection green
  observe(command, exit, text, edits) {
    const list = simpleCommands(command)
    let landed = false
    list.forEach(({ words, cwd }, index) => {
      const chosen = selection(words, cwd)
      const colour = chosen && outcome(ownsExit(list, index), exit, text)
      if (colour === "red") this.#note(chosen, edits)
      if (colour === "green" && this.#settle(chosen, edits)) landed = true
    })
    return landed
  }

  #note(chosen, edits) {
    const key = keyOf(chosen)
    this.#red.delete(key)
    this.#red.set(key, { chosen, edits })
    if (this.#red.size > SELECTIONS) this.#red.delete(this.#red.keys().next().value)
  }

  // A green run ends every red one that it covers; the ones without an edit in between end as flaky, not as landed.
  #settle(green, edits) {
    const ended = [...this.#red].filter(([, { chosen }]) => covers(green, chosen))
    for (const [key] of ended) this.#red.delete(key)
    return ended.some(([, red]) => red.edits < edits)
  }
}
