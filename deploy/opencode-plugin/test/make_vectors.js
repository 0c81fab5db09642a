// Writes vectors/normalise.json: what these rules make of a list of calls. Run it after a deliberate change of the rules; the
// tests of the plugin and those of treewarden's readers (tests/unit/sensors/test_normalise.py) both hold to the file.
//   node test/make_vectors.js
import { writeFileSync } from "node:fs"
import { essential, mayWrite, ownsExit, simpleCommands } from "../treewarden/command.js"
import { fingerprint, saidDigests } from "../treewarden/digest.js"
import { commitMade } from "../treewarden/landed.js"
import { errorClass, normalised, resultDigest, shellError } from "../treewarden/outcome.js"
import { slice, target } from "../treewarden/target.js"
import { covers, RedRuns, selection } from "../treewarden/testrun.js"

export const ROOT = "/home/me/project"
const COMMANDS = ["git status", "git add -A && git commit -m 'a && b'; ls | wc", 'echo "a; b" \\; c', "pytest 2>&1 | tail -5 & x",
  "a # git commit\nb", "cat > f <<'EOF'\ngit commit -m x\nEOF\nls", "cd a && cd b && pytest", "FOO=bar BAR='x y' pytest -q",
  "sudo env A=1 timeout 60 npm test", "python3 -m pytest tests > out.txt", "uv run python -m pytest 2> /dev/null", "pnpm exec vitest run 2>&1",
  "cat < in.txt", "pytest || true", "pytest; echo $?", "pytest && a || b", "sed -i s/a/b/ f", "echo x > f", "cat a >> b", "git apply p",
  "ruff check --fix", "x | tee f", "sed -n 1p f", "ls > /dev/null", "make 2> err", "npm run build:prod -- --token SECRET",
  "cd /home/me/project && pytest tests/unit -k SECRET", "TOKEN=hunter2 curl -Hhunter2 x", "cat /home/me/project/src/a.py", "sed -n 1,50p src/a.py",
  "head -n 50 src/a.py docs/b.md", "./scripts/run.sh --x", "docker login -p hunter2", "hunter2", "$(hunter2)", "mysql -phunter2 db", "",
  "git -C sub commit --amend --no-edit", "git commit -m \"$(cat <<'EOF'\ntext; more\nEOF\n)\"", "git commit --dry-run", "echo git commit",
  "git commit -m x | tail -1", "go test ./...", "go test -run TestA ./pkg", "npm run lint", "pytest -k foo tests/a.py::b", "pytest --lf",
  "cargo clippy", "node --test", "pytest --collect-only", "find . -name '*.py'", "grep -rn hunter2 src", "ls -la  |  head", "cat 'a file with words.txt'",
  "wc -l /etc/hosts", "cat /x/sk-abcdefghij0123456789klmnop", "tsc --noEmit", "rm -rf build", "( cd x; make )", "timeout -k 5 60 make test"]
const CALLS = [["read", { filePath: "/home/me/project/src/a.py" }], ["read", { filePath: "src/a.py", offset: 100 }], ["read", { filePath: "../b", limit: 5 }],
  ["edit", { filePath: "src/a.py", oldString: "x\r\ny  \n", newString: "z" }], ["write", { filePath: "/etc/hosts", content: "a\u00e9\u20ac" }],
  ["glob", { pattern: "**/*.py", path: "/home/me/project/src" }], ["grep", { pattern: "SECRET" }], ["list", { path: "." }],
  ["task", { subagent_type: "explore", prompt: "SECRET", description: "x" }], ["todowrite", { todos: [{ content: "SECRET", n: 1.5, m: 2, z: null }] }],
  ["SECRET tool name", {}], ["webfetch", { url: "https://x/y", deep: { b: [1, "a ", null], a: true } }], ["bash", { command: " ls   -l 'a  b' ", description: "two" }],
  ...COMMANDS.map((command) => ["bash", { command }])]
const OUTPUTS = ["", "3 passed in 0.12s", "at 2026-01-02T03:04:05.678Z ok", "12:01:02 start", "id 123e4567-e89b-12d3-a456-426614174000 ses_abc123",
  "[main abc1234] x\n 1 file changed", "/tmp/pytest-1/a failed", "a.py:12:34: E501\n12: foo\n  7| bar", "error on line 12, lines 4-9", "listening on localhost:4000 port 80",
  "\u001b[31mred\u001b[0m  \n", "object at 0x7ffabc pid=42 1234567890", "Tue, 03 Mar 2026 x", "2 failed, 1 passed", "OK", "AssertionError: 0 != 4", "ok  \tpkg 0.1s", "caf\u00e9 line 3"]
const ERRORS = ["File not found: /x/nope.txt", "Could not find oldString in the file. It must match exactly", "Model tried to call unavailable tool 'nosuch'.",
  "The user rejected permission to use this specific tool call.", "Request timed out", "connect ECONNREFUSED 127.0.0.1:1", "called with invalid arguments: expected string",
  "StatusCode: non 2xx status code (401 GET http://x)", "something odd", "429 Too Many Requests", "patch does not apply"]
const SHELL = [[0, "ECONNREFUSED"], [1, "AssertionError: not found"], [127, "sh: x: not found"], [1, "curl: could not resolve host"], [124, ""],
  [null, "shell tool terminated command after exceeding timeout 300 ms"], [null, "User aborted the command"], [137, "x"], [2, "401 unauthorized"]]
const SAID = ["I will now read the file again.", "one", "123 !!", "Caf\u00e9 \ufb01ne \u0130stanbul na\u00efve", "a b c d e f g a b c"]
const SELECTIONS = ["pytest", "pytest tests/a.py", "pytest -q --tb=short", "pytest tests", "pytest tests/a.py::test_one", "pytest -k foo", "pytest -k easy --deselect x",
  "pytest tests/ab.py", "npm test", "npm run lint", "cd a && pytest", "go test ./...", "go test ./pkg", "go test -run TestA ./pkg", "npx jest src", "make test", "ruff check .",
  "pytest -n 4 tests/ --maxfail=1", "cargo test", "./node_modules/.bin/vitest"]
const STORIES = [[["pytest", 1, "", 0], ["pytest", 0, "", 1], ["pytest", 0, "", 2], ["pytest", 1, "", 2], ["pytest", 0, "", 3]], [["pytest", 1, "", 0], ["pytest", 0, "", 0], ["pytest", 0, "", 1]],
  [["pytest | tail", 0, "2 failed", 0], ["pytest | tail", 0, "3 passed", 1]], [["pytest tests/a.py", 1, "", 0], ["npm test", 0, "", 1], ["pytest", 0, "", 1]], [["pytest", null, "", 0], ["pytest", 0, "", 1]]]

const own = (value) => (value === undefined ? null : value)
const last = (text) => selection(simpleCommands(text).at(-1)?.words ?? [], simpleCommands(text).at(-1)?.cwd)
const hidden = (text) => text.replace(/h:[0-9a-f]{10}/g, "h:*")

export function vectors() {
  return {
    commands: COMMANDS.map((text) => ({
      text, mayWrite: mayWrite(text),
      simple: simpleCommands(text).map((one, at, list) => ({ ...one, essential: essential(one.words), owns: ownsExit(list, at) })),
      commit: [0, 1, null].map((exit) => commitMade(text, exit, "[main abc1234] m") !== undefined), unsaid: commitMade(text, 0, "nothing") !== undefined,
    })),
    calls: CALLS.map(([tool, args]) => ({ tool, args, fingerprint: fingerprint(tool, args), slice: own(slice(tool, args, ROOT)), target: hidden(target(tool, args, ROOT)) })),
    outputs: OUTPUTS.map((text) => ({ text, masked: normalised(text), digest: resultDigest(text, 0), unknown: resultDigest(text, null) })),
    errors: ERRORS.map((text) => ({ text, error: own(errorClass(text)) })),
    shell: SHELL.map(([exit, text]) => ({ exit, text, error: own(shellError(exit, text)) })),
    said: SAID.map((text) => ({ text, ...saidDigests(text) })),
    covers: SELECTIONS.flatMap((green) => SELECTIONS.filter((red) => last(green) && last(red) && covers(last(green), last(red))).map((red) => [green, red])),
    selections: SELECTIONS.map((text) => ({ text, ...last(text) })),
    stories: STORIES.map((story) => { const runs = new RedRuns(); return story.map(([command, exit, text, edits]) => ({ command, exit, text, edits, landed: runs.observe(command, exit, text, edits) })) }),
  }
}

const ascii = (text) => text.replace(/[\u007f-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`)
export const written = () => ascii(JSON.stringify(vectors(), null, 1)) + "\n"

if (process.argv[1]?.endsWith("make_vectors.js")) writeFileSync(new URL("vectors/normalise.json", import.meta.url), written())
