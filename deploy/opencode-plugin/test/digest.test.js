import assert from "node:assert/strict"
import { test } from "node:test"
import { fingerprint, saidDigests, slug } from "../treewarden/digest.js"

test("fingerprint: key order, line ends and outer whitespace do not matter", () => {
  assert.equal(fingerprint("edit", { a: 1, b: "x\r\ny  \n" }), fingerprint("edit", { b: "x\ny", a: 1, c: undefined }))
  assert.equal(fingerprint("bash", { command: "ls   -l", description: "one" }), fingerprint("bash", { command: " ls -l ", description: "two" }))
  assert.match(fingerprint("x", undefined), /^[0-9a-f]{64}$/)
})

test("fingerprint: tools, values, inner and quoted whitespace matter", () => {
  assert.notEqual(fingerprint("read", { a: 1 }), fingerprint("edit", { a: 1 }))
  assert.notEqual(fingerprint("bash", { command: "echo 'a  b'" }), fingerprint("bash", { command: "echo 'a b'" }))
  assert.notEqual(fingerprint("edit", { newString: "a\n  b" }), fingerprint("edit", { newString: "a\n b" }))
  assert.notEqual(fingerprint("x", { a: [1, 2] }), fingerprint("x", { a: [2, 1] }))
})

const distance = (a, b) => [...(BigInt(`0x${a}`) ^ BigInt(`0x${b}`)).toString(2)].filter((bit) => bit === "1").length

test("said: equal words are equal, reworded texts are near, other texts far", () => {
  const base = saidDigests("I will now read the file again to find out why the test is failing on line 12.")
  assert.deepEqual(saidDigests("i will NOW read the file, again, to find out why the test is failing on line 99"), base)
  const near = saidDigests("I will now read the file again to find out why the test was failing on line 12.")
  const far = saidDigests("Commit everything, push the branch and open a pull request for review please.")
  assert.ok(distance(base.said_sim, near.said_sim) < distance(base.said_sim, far.said_sim))
  assert.match(base.said_sim, /^[0-9a-f]{16}$/)
  assert.deepEqual(saidDigests("123 !!"), {})
})

test("slug: agent names with blanks and signs", () => {
  assert.equal(slug("Sisyphus (Ultra Worker)"), "sisyphus-ultra-worker")
  assert.equal(slug("build"), "build")
  assert.equal(slug(undefined), undefined)
})
