// Where the daemon is: url and token from sensor.json in its runtime directory, read again whenever the last answer says
// that what we know is stale (refused connection, 401, 404). Never cached as missing: a daemon may start after the client.
import { lstat, readFile } from "node:fs/promises"
import { userInfo } from "node:os"
import path from "node:path"

export function runtimeDir(env = process.env) {
  if (env.TREEWARDEN_RUNTIME_DIR) return env.TREEWARDEN_RUNTIME_DIR
  if (env.XDG_RUNTIME_DIR) return path.join(env.XDG_RUNTIME_DIR, "treewarden")
  return `/tmp/treewarden-${typeof process.getuid === "function" ? process.getuid() : userInfo().uid}`
}

export class Endpoint {
  #known
  #directory

  constructor(directory = runtimeDir()) {
    this.#directory = directory
  }

  // -> {url, token} or undefined. Only loopback urls: a planted file must not make the client talk to another host.
  async find() {
    this.#known ??= await this.#read()
    return this.#known
  }

  forget() {
    this.#known = undefined
  }

  async #read() {
    try {
      const file = path.join(this.#directory, "sensor.json")
      const mine = process.getuid?.()
      if (mine !== undefined && ![0, mine].includes((await lstat(file)).uid)) return undefined // planted in /tmp
      const { url, token } = JSON.parse(await readFile(file, "utf8"))
      return isLoopback(url) && typeof token === "string" ? { url: url.replace(/\/+$/, ""), token } : undefined
    } catch {
      return undefined // not there, not readable, half written: the sender tries again later
    }
  }
}

function isLoopback(url) {
  try {
    return /^(?:127\.\d+\.\d+\.\d+|localhost|\[::1\])$/.test(new URL(url).hostname)
  } catch {
    return false
  }
}
