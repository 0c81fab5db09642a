// The plugin file that opencode loads: the thin v1 shell. Everything it does is in ./treewarden/*.js (P136).
//
// opencode 1.18 imports {plugin,plugins}/*.{js,ts} of its config directories, top level only, so the modules in the folder
// beside this file are not plugins themselves. The default export {id, server} is the module form of v1; v2 of opencode
// globs the same files, finds neither setup nor effect, and leaves this one alone: no event is sent twice.
//
// Guarantees: no hook throws, none waits for the network; the only waits are local reads of the file that is being edited.
import { createSensor } from "./treewarden/sensor.js"
import { hooksV1 } from "./treewarden/shell_v1.js"

const server = async (input) => hooksV1(createSensor(input))

export default { id: "treewarden", server }
