import assert from "node:assert/strict"
import { test } from "node:test"
import { errorClass, exitOf, resultDigest, shellError, textOf } from "../treewarden/outcome.js"

const same = (a, b) => assert.equal(resultDigest(a, 0), resultDigest(b, 0), `${a} = ${b}`)
const differ = (a, b) => assert.notEqual(resultDigest(a, 0), resultDigest(b, 0), `${a} != ${b}`)

test("result: times, durations, ids, temporary paths, ports and line numbers are masked", () => {
  same("3 passed in 0.12s", "3 passed in 14.5s")
  same("at 2026-01-02T03:04:05.678Z ok", "at 2027-12-30T23:00:00Z ok")
  same("12:01:02 start", "13:59:59 start")
  same("id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-e89b-12d3-a456-42661417ffff")
  same("[main abc1234] x", "[main 9f8e7d6] x")
  same("/tmp/pytest-1/a failed", "/tmp/pytest-22/b failed")
  same("a.py:12:34: E501", "a.py:99:1: E501")
  same("error on line 12", "error on line 400")
  same("12: foo", "99: foo")
  same("listening on localhost:4000", "listening on localhost:5999")
  same("\u001b[31mred\u001b[0m", "red")
  same("object at 0x7ffabc", "object at 0x111111")
})

test("result: counts, words and the exit status stay", () => {
  differ("3 failed", "2 failed")
  differ("foo", "bar")
  assert.notEqual(resultDigest("x", 0), resultDigest("x", 1))
  differ(`${"a".repeat(300_000)}`, `${"a".repeat(300_001)}`)
})

test("exit: metadata.exit first, null when it is unknown", () => {
  assert.equal(exitOf({ exit: 3 }), 3)
  assert.equal(exitOf({ exit: 0 }), 0)
  assert.equal(exitOf({ exit: null }), null)
  assert.equal(exitOf(undefined), null)
})

test("error classes of the real client's messages", () => {
  const table = {
    "File not found: /x/nope.txt": "notfound",
    "Could not find oldString in the file. It must match exactly, including whitespace": "edit_mismatch",
    "No changes to apply: oldString and newString are identical.": "edit_mismatch",
    "Model tried to call unavailable tool 'nosuch'. Available tools: bash": "unknown_tool",
    "The user rejected permission to use this specific tool call.": "denied",
    "The user has specified a rule which prevents you from using this specific tool call.": "denied",
    "Request timed out": "timeout",
    "connect ECONNREFUSED 127.0.0.1:1": "infra",
    "The read tool was called with invalid arguments: expected string": "parse",
    "StatusCode: non 2xx status code (401 GET http://x)": "auth",
    "something odd": undefined,
  }
  for (const [text, expected] of Object.entries(table)) assert.equal(errorClass(text), expected, text)
})

test("shell errors: by exit status, by output only what is not the program's doing", () => {
  assert.equal(shellError(0, "ECONNREFUSED"), undefined)
  assert.equal(shellError(1, "AssertionError: not found"), undefined)
  assert.equal(shellError(127, "sh: x: not found"), "notfound")
  assert.equal(shellError(1, "curl: could not resolve host"), "infra")
  assert.equal(shellError(null, "shell tool terminated command after exceeding timeout 300 ms"), "timeout")
  assert.equal(shellError(null, "User aborted the command"), undefined)
})

test("text: strings and MCP content", () => {
  assert.equal(textOf("a"), "a")
  assert.equal(textOf({ content: [{ type: "text", text: "a" }, { type: "image" }] }), "a\n")
  assert.equal(textOf(undefined), "")
})
