import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { test } from "node:test"
import { written } from "./make_vectors.js"

test("the rules make of the shared calls what the shared vectors say (treewarden's readers hold to the same file)", () => {
  assert.equal(written(), readFileSync(new URL("vectors/normalise.json", import.meta.url), "utf8"))
})
