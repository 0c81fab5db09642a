import assert from "node:assert/strict"
import { test } from "node:test"
import { essential, mayWrite, ownsExit, simpleCommands } from "../treewarden/command.js"

const words = (text) => simpleCommands(text).map((command) => command.words)

test("simple commands are split at operators outside of quotes", () => {
  assert.deepEqual(words("git add -A && git commit -m 'a && b'; ls | wc"), [
    ["git", "add", "-A"], ["git", "commit", "-m", "a && b"], ["ls"], ["wc"]])
  assert.deepEqual(words('echo "a; b" \\; c'), [["echo", "a; b", ";", "c"]])
  assert.deepEqual(words("pytest 2>&1 | tail -5 & x"), [["pytest", "2>&1"], ["tail", "-5"], ["x"]])
  assert.deepEqual(words("a # git commit\nb"), [["a"], ["b"]])
})

test("the body of a here document is data", () => {
  assert.deepEqual(words("cat > f <<'EOF'\ngit commit -m x\nEOF\nls"), [["cat", ">", "f"], ["ls"]])
})

test("cd chooses the directory of what follows", () => {
  assert.deepEqual(simpleCommands("cd a && cd b && pytest").map(({ cwd }) => cwd), ["", "a", "a/b"])
})

test("essential words: no assignments, wrappers, runners, redirections", () => {
  const table = {
    "FOO=bar BAR='x y' pytest -q": ["pytest", "-q"],
    "sudo env A=1 timeout 60 npm test": ["npm", "test"],
    "python3 -m pytest tests > out.txt": ["pytest", "tests"],
    "uv run python -m pytest 2> /dev/null": ["pytest"],
    "pnpm exec vitest run 2>&1": ["vitest", "run"],
    "cat < in.txt": ["cat"],
  }
  for (const [text, expected] of Object.entries(table)) assert.deepEqual(essential(words(text)[0]), expected, text)
})

test("a command owns the exit status only if nothing after it can hide a failure", () => {
  const owns = (text) => {
    const list = simpleCommands(text)
    return ownsExit(list, list.findIndex((command) => command.words[0] === "pytest"))
  }
  const table = {
    "pytest": true, "cd x && pytest": true, "pytest && echo done": true, "echo a; pytest": true,
    "pytest | tail": false, "pytest || true": false, "pytest; echo $?": false, "pytest &": false, "pytest && a || b": false,
  }
  for (const [text, expected] of Object.entries(table)) assert.equal(owns(text), expected, text)
})

test("commands that may write are seen, reading ones are not", () => {
  for (const text of ["sed -i s/a/b/ f", "echo x > f", "cat a >> b", "git apply p", "ruff check --fix", "cp a b", "x | tee f"])
    assert.equal(mayWrite(text), true, text)
  for (const text of ["sed -n 1p f", "pytest 2>&1", "ls > /dev/null", "git status", "make 2> err", "git log"])
    assert.equal(mayWrite(text), false, text)
})
