import type { Readable } from 'node:stream'
import { z } from 'zod'
import type { RunnerMessage } from './runner/messages.ts'

const LINE_MAX = 64 * 1_024
const TEXT_MAX = 1_000
const IGNORED_MAX = 50

const schema = z.discriminatedUnion('ok', [
  z.object({
    step: z.int(),
    ok: z.literal(true),
    ignored: z.array(z.string().max(TEXT_MAX)).max(IGNORED_MAX).optional(),
  }),
  z.object({
    step: z.int(),
    ok: z.literal(false),
    code: z.int().nullable(),
    signal: z.string().max(20).nullable(),
    isTmpFull: z.boolean().optional(),
    message: z.string().max(TEXT_MAX).optional(),
  }),
])

/**
 * Reads the runner's messages about a number of steps: each ends once, in order. It runs as the build's own user, who can
 * forge messages: an invalid or unexpected message ends the reading, and has no other effect.
 */
export async function readRunnerMessages(
  control: Readable,
  steps: number,
  onMessage: (message: RunnerMessage) => void,
): Promise<void> {
  let rest = ''
  let heard = 0
  try {
    for await (const chunk of control as AsyncIterable<Buffer>) {
      rest += chunk.toString('utf8')
      const lines = rest.split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        const message = schema.parse(JSON.parse(line))
        if (message.step !== heard || message.step >= steps) return
        heard++
        onMessage(message)
      }
      if (rest.length > LINE_MAX) return
    }
  } catch {
    // It was killed in the middle of a line, or its output is invalid.
  }
}
