import type { Context } from './context.ts'

/** How long the first byte may take: a program may have left its stdin open without meaning to. */
const FIRST_BYTE_MS = 10_000

const DONE = { done: true, value: undefined } as const

/** What stdin holds; nothing if it stays silent. Throws what ends the command. */
export async function readStdin({ world, signal }: Context): Promise<Buffer> {
  const input = world.stdin[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  const ended = (by: AbortSignal) =>
    new Promise<typeof DONE>((resolve) => {
      if (by.aborted) resolve(DONE)
      else by.addEventListener('abort', () => resolve(DONE), { once: true })
    })
  const stopped = ended(signal)
  const chunks: Buffer[] = []
  let read = await Promise.race([input.next(), stopped, ended(AbortSignal.timeout(FIRST_BYTE_MS))])
  while (!read.done) {
    chunks.push(read.value)
    read = await Promise.race([input.next(), stopped])
  }
  signal.throwIfAborted()
  return Buffer.concat(chunks)
}
