// Bounded memory: a session of weeks must not grow the client (P015). Least recently used entries go first.

export class BoundedMap {
  #limit
  #map = new Map()

  constructor(limit) {
    this.#limit = limit
  }

  get size() {
    return this.#map.size
  }

  has(key) {
    return this.#map.has(key)
  }

  get(key) {
    if (!this.#map.has(key)) return undefined
    const value = this.#map.get(key)
    this.#map.delete(key)
    this.#map.set(key, value)
    return value
  }

  set(key, value) {
    this.#map.delete(key)
    this.#map.set(key, value)
    if (this.#map.size > this.#limit) this.#map.delete(this.#map.keys().next().value)
    return value
  }

  delete(key) {
    return this.#map.delete(key)
  }

  obtain(key, make) {
    return this.has(key) ? this.get(key) : this.set(key, make())
  }
}

// True the first time a key is seen; a key that has been forgotten counts as new.
export class Once {
  #seen

  constructor(limit) {
    this.#seen = new BoundedMap(limit)
  }

  first(key) {
    if (this.#seen.has(key)) return false
    this.#seen.set(key, true)
    return true
  }
}
