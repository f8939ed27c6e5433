// portcullis: tells the gate what a person typed. `portcullis clients uninstall opencode` removes this file.
import { spawn } from "node:child_process"

const [program, ...words] = [/* command */]
/// Whether a prompt that the gate did not hear is stopped, whatever the reason.
const isStrict = words.includes("--strict")

/// Runs the hook; its exit code, and what it said.
const run = (told) =>
  new Promise((done) => {
    const child = spawn(program, words, { stdio: ["pipe", "ignore", "pipe"], timeout: 15000 })
    let said = ""
    child.stderr.on("data", (piece) => (said += piece))
    child.on("error", () => done([1, ""]))
    child.on("close", (code) => done([code, said]))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(told))
  })

export const Portcullis = async ({ client }) => {
  const met = new Set()
  /// A conversation is new if nothing has been said in it. What cannot be asked is not.
  const source = async (id) => {
    const messages = await client.session.messages({ path: { id } }).catch(() => ({}))
    return Array.isArray(messages.data) && messages.data.length === 0 ? "startup" : "resume"
  }
  return {
    "chat.message": async (input, output) => {
      const id = input.sessionID
      const session = await client.session.get({ path: { id } }).catch(() => ({}))
      // A session with a parent is one that an agent talks to.
      if (session.data?.parentID) return
      // Of one that cannot be asked nobody knows who talks: the gate hears that it is open, and no words.
      const parts = session.data ? output.parts : []
      const typed = parts.filter((part) => part.type === "text" && !part.synthetic && !part.ignored)
      const told = {
        hook_event_name: "UserPromptSubmit",
        session_id: id,
        prompt: typed.map((part) => part.text).join("\n"),
      }
      if (!met.has(id)) told.source = await source(id)
      met.add(id)
      const [code, said] = await run(told)
      if (isStrict ? code !== 0 : code === 2) throw new Error(said || "the gate did not hear this")
    },
    event: async ({ event }) => {
      if (event.type !== "session.deleted") return
      await run({ hook_event_name: "SessionEnd", session_id: event.properties?.info?.id ?? "" })
    },
  }
}
