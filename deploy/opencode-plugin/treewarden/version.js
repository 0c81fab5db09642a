// One place for the version: install-plugin and doctor read it from this file, so keep it on one line of its own.
export const VERSION = "0.1.0"
export const SENSOR = `opencode-plugin/${VERSION}`
