import assert from "node:assert/strict"
import { homedir } from "node:os"
import { test } from "node:test"
import { slice, target } from "../treewarden/target.js"

const ROOT = "/home/me/project"
const bash = (command) => target("bash", { command }, ROOT)

test("file tools: the path, inside the project relative to it", () => {
  const table = [
    ["read", { filePath: "/home/me/project/src/a.py" }, "src/a.py"],
    ["edit", { filePath: "src/a.py" }, "src/a.py"],
    ["write", { filePath: `${homedir()}/notes/b.txt` }, "~/notes/b.txt"],
    ["read", { filePath: "/etc/hosts" }, "/etc/hosts"],
    ["glob", { pattern: "**/*.py", path: "/home/me/project/src" }, "glob src"],
    ["grep", { pattern: "SECRET" }, "grep"],
    ["task", { subagent_type: "explore", prompt: "SECRET" }, "task explore"],
    ["todowrite", { todos: ["SECRET"] }, "todowrite"],
  ]
  for (const [tool, args, expected] of table) assert.equal(target(tool, args, ROOT), expected, tool)
})

test("shell: the first two words where they are plain", () => {
  const table = {
    "git status": "git status",
    "npm run build:prod -- --token SECRET": "npm run",
    "cd /home/me/project && pytest tests/unit -k SECRET": "pytest tests/unit",
    "FOO=SECRET BAR=x make test": "make test",
    "python3 -m pytest tests/a.py": "pytest tests/a.py",
    "cat /home/me/project/src/a.py": "cat src/a.py",
    "sed -n 1,50p src/a.py": "sed src/a.py",
    "./scripts/run.sh --x": "scripts/run.sh",
    "ls": "ls",
    "sudo docker ps": "docker ps",
    "": "shell",
  }
  for (const [command, expected] of Object.entries(table)) assert.equal(bash(command), expected, command)
})

test("T50: no secret reaches the target, whatever the word it hides in", () => {
  const commands = [
    "TOKEN=hunter2 curl x", "curl -Hhunter2 x", "curl https://user:hunter2@host", "echo hunter2", "export TOKEN=hunter2", "hunter2",
    "mysql -phunter2 db", "git -c user.token=hunter2 push", "npm --token hunter2 publish", "grep hunter2 -r .", "ssh hunter2",
    "env hunter2", "cat <<< hunter2", "printf %s hunter2", "docker login -p hunter2", "git hunter2", "python3 hunter2", "make hunter2",
    "\"hunter2 word\" x", "psql hunter2", "$(hunter2)", "`hunter2`", "cat hunter2", "aws hunter2", "gh hunter2",
  ]
  for (const command of commands) assert.doesNotMatch(bash(command), /hunter2/, command)
  assert.doesNotMatch(target("read", { filePath: "/x/sk-abcdefghij0123456789klmnop" }, ROOT), /abcdefghij/)
  assert.doesNotMatch(target("read", { filePath: "/x/a file with words" }, ROOT), /words/)
  assert.doesNotMatch(target("SECRET tool name", {}, ROOT), /SECRET/)
})

test("hashed words stay equal within the process and differ from each other", () => {
  assert.equal(bash("curl aaa"), bash("curl aaa"))
  assert.notEqual(bash("curl aaa"), bash("curl bbb"))
  assert.match(bash("curl aaa"), /^curl h:[0-9a-f]{10}$/)
})

test("slice of reads: path and range; defaults count as given", () => {
  const read = (args) => slice("read", args, ROOT)
  assert.equal(read({ filePath: "a.py" }), read({ filePath: "/home/me/project/a.py", offset: 0, limit: 2000 }))
  assert.notEqual(read({ filePath: "a.py" }), read({ filePath: "a.py", offset: 100 }))
  assert.notEqual(read({ filePath: "a.py" }), read({ filePath: "b.py" }))
})

test("slice of shell: files and numbers, not flags or their order", () => {
  const shell = (command) => slice("bash", { command }, ROOT)
  assert.equal(shell("sed -n '1,50p' src/a.py"), shell("sed '1,50p' -n src/a.py"))
  assert.notEqual(shell("sed -n '1,50p' src/a.py"), shell("sed -n '51,99p' src/a.py"))
  assert.notEqual(shell("head -n 5 a.py"), shell("head -n 5 b.py"))
  assert.equal(shell("make test"), undefined)
})

test("edits have no slice: the same file edited again is not the same thing again", () => {
  assert.equal(slice("edit", { filePath: "a.py", oldString: "x" }, ROOT), undefined)
})
