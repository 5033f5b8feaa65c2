// Passes the output of tools to Atlatl, which stores large output and returns a descriptor.
// `atlatl install --hooks` writes this file, and `atlatl uninstall` removes it.
import { spawn } from "node:child_process"

const COMMAND = "exec atlatl hook opencode tool.execute.after --tools atlatl_"
const TIMEOUT_MS = 10000

// The answer of the hook; undefined on every failure, and opencode's own output stays.
function hook(event) {
  return new Promise((resolve) => {
    const child = spawn("/bin/sh", ["-c", COMMAND], {
      stdio: ["pipe", "pipe", "ignore"],
      timeout: TIMEOUT_MS,
    })
    const chunks = []
    child.on("error", () => resolve(undefined))
    child.stdin.on("error", () => {})
    child.stdout.on("data", (chunk) => chunks.push(chunk))
    child.on("close", () => {
      try {
        resolve(JSON.parse(Buffer.concat(chunks).toString("utf8")))
      } catch {
        resolve(undefined)
      }
    })
    child.stdin.end(JSON.stringify(event))
  })
}

export const Atlatl = async () => ({
  "tool.execute.after": async (input, output) => {
    try {
      const { output: text, content, metadata } = output
      const answer = await hook({
        sessionID: input.sessionID,
        tool: input.tool,
        args: input.args,
        output: { output: text, content, metadata: { outputPath: metadata?.outputPath } },
      })
      if (typeof answer?.output === "string") output.output = answer.output
      if (Array.isArray(answer?.content)) output.content = answer.content
    } catch {
      // opencode's own output stays.
    }
  },
})
