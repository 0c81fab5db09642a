import assert from "node:assert/strict"
import { test } from "node:test"
import { simpleCommands } from "../treewarden/command.js"
import { covers, RedRuns, selection } from "../treewarden/testrun.js"

const chosen = (text) => selection(simpleCommands(text).at(-1).words, simpleCommands(text).at(-1).cwd)

test("what is a test or lint command", () => {
  const yes = ["pytest", "python -m pytest -q", "uv run pytest", "npm test", "npm run lint", "pnpm run test:unit", "go test ./...", "cargo clippy",
    "make test", "node --test", "npx jest", "ruff check .", "mypy src", "tsc --noEmit", "./node_modules/.bin/vitest", "just check", "yarn lint"]
  const no = ["npm install", "npm run dev", "pytest --version", "pytest --collect-only", "make", "make deploy", "ls", "git status", "echo pytest", "go build", "grep test x"]
  for (const text of yes) assert.ok(chosen(text), text)
  for (const text of no) assert.equal(chosen(text), undefined, text)
})

test("T42: the green run has the same selection as the red one or a wider one", () => {
  const table = [
    // green, red, covered
    ["pytest", "pytest", true],
    ["pytest", "pytest tests/a.py", true],
    ["pytest -q --tb=short", "pytest -x", true],
    ["pytest tests", "pytest tests/a.py::test_one", true],
    ["pytest tests/a.py", "pytest tests/a.py::test_one", true],
    ["pytest", "pytest -k foo", true],
    ["pytest -k foo", "pytest -k foo", true],
    ["pytest tests/a.py", "pytest", false],
    ["pytest -k easy", "pytest", false],
    ["pytest --lf", "pytest", false],
    ["pytest --deselect tests/a.py::x", "pytest", false],
    ["pytest tests/ab.py", "pytest tests/a", false],
    ["pytest -k foo", "pytest -k bar", false],
    ["npm test", "pytest", false],
    ["cd a && pytest", "pytest", false],
    ["go test ./...", "go test ./pkg", true],
    ["go test -run TestA ./pkg", "go test ./pkg", false],
    ["npm run lint", "npm test", false],
  ]
  for (const [green, red, expected] of table) assert.equal(covers(chosen(green), chosen(red)), expected, `${green} covers ${red}`)
})

// Each story is a list of [command, exit, landed, edits so far, output].
const tell = (story) => {
  const runs = new RedRuns()
  for (const [command, exit, expected, edits, output = ""] of story) assert.equal(runs.observe(command, exit, output, edits), expected, `${command} ${exit}`)
}

test("fail, edit, pass lands once until it is red again", () => {
  tell([["pytest", 1, false, 0], ["pytest", 0, true, 1], ["pytest", 0, false, 2], ["pytest", 1, false, 2], ["pytest", 0, true, 3]])
})

test("pass after pass, and a first pass, do not land", () => tell([["pytest", 0, false, 0], ["pytest", 0, false, 1]]))

test("a flaky test that turns green without an edit does not land, and not later either", () => {
  tell([["pytest", 1, false, 0], ["pytest", 0, false, 0], ["pytest", 0, false, 1]])
})

test("still red after the last edit, then green without another one: flaky", () => {
  tell([["pytest", 1, false, 0], ["pytest", 1, false, 1], ["pytest", 0, false, 1]])
})

test("red on the suite, green on an easy subset: nothing; green on the suite: landed", () => {
  tell([["pytest", 1, false, 0], ["pytest -k easy", 0, false, 1], ["pytest tests/a.py", 0, false, 1], ["pytest -q", 0, true, 1]])
})

test("an unknown exit is neither red nor green", () => tell([["pytest", null, false, 0], ["pytest", 0, false, 1]]))

test("behind a pipe the text speaks: red text, then green text", () => {
  tell([["pytest | tail", 0, false, 0, "2 failed, 1 passed"], ["pytest | tail", 0, true, 1, "3 passed"]])
  tell([["pytest || true", 0, false, 0, "nothing to see"], ["pytest", 0, false, 1]])
})

test("a lint run in a chain", () => tell([["cd web && npm run lint", 2, false, 0], ["cd web && npm run lint", 0, true, 1]]))
