import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import { mkdtempSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { test } from "node:test"
import { commitMade, commitState, editedFiles, editLanded, editState, fileState } from "../treewarden/landed.js"

test("P026: edits land with a non-empty diff, writes when the content changed", () => {
  const table = [
    ["edit", { diff: "@@ -1 +1 @@" }, undefined, "x", true],
    ["edit", { diff: "" }, undefined, "x", false],
    ["edit", { diff: " \n" }, undefined, "x", false],
    ["edit", {}, undefined, "x", false],
    ["patch", { diff: "+a" }, undefined, undefined, true],
    ["apply_patch", { diff: "+a" }, undefined, undefined, true],
    ["write", {}, "a", "b", true],
    ["write", {}, "a", "a", false],
    ["write", {}, "absent", "b", true],
    ["write", { exists: false }, undefined, "b", true],
    ["write", { exists: true }, undefined, "b", false],
    ["write", {}, "a", undefined, false],
    ["read", { diff: "+a" }, "a", "b", false],
    ["todowrite", { diff: "+a" }, "a", "b", false],
    ["task", {}, "a", "b", false],
  ]
  for (const [tool, metadata, before, after, expected] of table)
    assert.equal(editLanded(tool, metadata, before, after), expected, JSON.stringify([tool, metadata, before, after]))
})

test("P027: git commit with exit 0, also --amend; a masked exit needs git's own word", () => {
  const said = "[main abc1234] message\n 1 file changed"
  const table = [
    ["git commit -m x", 0, "", ""],
    ["git commit --amend --no-edit", 0, "", ""],
    ["git add -A && git commit -m 'a; b'", 0, "", ""],
    ["git -c user.name=x -C sub commit -m x", 0, "", "sub"],
    ["cd sub && git commit -m x && git push", 0, "", "sub"],
    ['git commit -m "$(cat <<\'EOF\'\ntext; more\nEOF\n)"', 0, "", ""],
    ["git commit -m x", 1, "", undefined],
    ["git commit -m x", null, "", undefined],
    ["git commit --dry-run", 0, "", undefined],
    ["git status", 0, said, undefined],
    ["git log --grep commit", 0, "", undefined],
    ["echo git commit", 0, said, undefined],
    ["git commit -m x | tail -1", 0, said, ""],
    ["git commit -m x || true", 0, "nothing to commit", undefined],
    ["git commit -m x; git status", 0, "nothing to commit", undefined],
  ]
  for (const [command, exit, text, expected] of table) assert.equal(commitMade(command, exit, text), expected, command)
})

test("the state of an edit follows the file's content: apply and undo come back to the same state", async () => {
  const file = path.join(mkdtempSync(path.join(tmpdir(), "tw-")), "a.txt")
  assert.equal(await fileState(file), "absent")
  writeFileSync(file, "one")
  const first = await editState(editedFiles("edit", file, {}, "/"))
  writeFileSync(file, "two")
  const second = await editState(editedFiles("edit", file, {}, "/"))
  writeFileSync(file, "one")
  assert.notEqual(first, second)
  assert.equal(await fileState(file), first)
})

test("files of a patch come from its metadata", () => {
  assert.deepEqual(editedFiles("apply_patch", undefined, { files: [{ filePath: "/p/b" }, { filePath: "a" }] }, "/p"), ["/p/a", "/p/b"])
  assert.deepEqual(editedFiles("read", "/p/a", {}, "/p"), [])
})

test("an amend that changes nothing has the state that was there before", async () => {
  const repo = mkdtempSync(path.join(tmpdir(), "tw-"))
  const git = (...args) => execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", ...args], { cwd: repo, stdio: "ignore" })
  git("init")
  writeFileSync(path.join(repo, "a"), "1")
  git("add", "a")
  git("commit", "-m", "one")
  const first = await commitState(repo)
  git("commit", "--amend", "-m", "other words")
  assert.ok(first)
  assert.equal(await commitState(repo), first)
  assert.equal(await commitState(path.join(repo, "missing")), undefined)
})
