// opencode's v1 hooks -> sensor. No decisions here. No hook ever throws: a throw in tool.execute.before would refuse the call.
export function hooksV1(sensor, fault = () => sensor.fault()) {
  const guarded = (hook) => async (input, output) => {
    try {
      await hook(input, output)
    } catch {
      fault() // counted and shown by the daemon; the session goes on
    }
  }
  return {
    event: guarded(({ event }) => sensor.event(event)),
    "chat.headers": guarded(async (input, output) => void Object.assign(output.headers, await sensor.headers(input))),
    "tool.execute.before": guarded((input, output) => sensor.beforeTool(input, output.args)),
    "tool.execute.after": guarded((input, output) => sensor.afterTool(input, output)),
    dispose: guarded(() => sensor.flush(300)),
  }
}
