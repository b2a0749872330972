import { type IncomingMessage, request } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { FunctionFailure, type Lease } from '@platform/function-runtime/function-runtime'
import type { Answer } from '@platform/build-output/router'
import { mergeAnswerHeaders, pairsOf } from './answer-headers.ts'
import { type FunctionTimings, isEventStream, noFirstByte, silentAnswer } from './call-function.ts'
import { answerFailure, type FunctionCaller, headersFor, unreadable } from './deliver-function.ts'
import type { DeployedFunction } from './deployed-site.ts'
import { flatten, type Visit } from './visit.ts'

/** How often the kernel asks a silent peer whether it is there. */
const ALIVE_MS = 30_000
/** How long a client may take for what a slot sent before it ended. */
const LAST_BYTES_MS = 30_000

/** Joins two connections until either side ends, and then tells how many bytes came from each. */
function join(client: Socket, slot: Duplex, onOver: (bytes: { received: number; sent: number }) => void): void {
  let received = 0
  let sent = 0
  let isOver = false
  const over = (): void => {
    if (isOver) return
    isOver = true
    client.destroy()
    slot.destroy()
    onOver({ received, sent })
  }
  client.on('data', (chunk: Buffer) => void (received += chunk.length))
  slot.on('data', (chunk: Buffer) => void (sent += chunk.length))
  for (const each of [client, slot]) each.on('error', over)
  client.once('close', over)
  slot.once('close', () => {
    // The last bytes may still be on their way to the client.
    client.setTimeout(LAST_BYTES_MS, over)
    client.destroySoon()
  })
  client.pipe(slot)
  slot.pipe(client)
}

/**
 * Passes the upgrade to a WebSocket on, and joins both connections for as long as both sides live. A Function that does
 * not upgrade answers as to any request.
 */
export async function deliverUpgrade(
  caller: FunctionCaller,
  visit: Visit,
  fn: DeployedFunction,
  answer: Extract<Answer, { kind: 'function' }>,
  head: Buffer,
): Promise<void> {
  const { socket, outgoing } = visit
  visit.servedBy = fn.servedBy
  visit.cacheStatus = 'bypass'
  let lease: Lease | undefined
  try {
    lease = await caller.deps.functions.acquire(fn.deploymentId, fn.id)
    if (socket.destroyed) return
    const headers = {
      ...headersFor(caller, visit, answer),
      connection: 'upgrade',
      upgrade: 'websocket',
    }
    await passUpgrade(visit, lease, { path: answer.url, headers }, answer, caller.timings, head)
  } catch (error) {
    if (socket.destroyed) return
    const failure = error instanceof FunctionFailure ? error : await lease?.failure()
    if (failure === undefined && lease === undefined) throw error
    answerFailure(caller, visit, failure ?? unreadable(error), lease, fn)
    if (!outgoing.writableEnded) outgoing.destroy()
  } finally {
    lease?.release()
  }
}

/** The body of an answer. It throws when the Function is silent for too long, and the client's connection ends when that is. */
async function* unlessSilent(response: IncomingMessage, client: Socket, silentMs: number): AsyncGenerator<Buffer> {
  const isEvents = isEventStream(response.headers['content-type'])
  const watch = () => (isEvents ? undefined : setTimeout(() => response.destroy(silentAnswer(silentMs)), silentMs))
  let late = watch()
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      clearTimeout(late)
      late = setTimeout(() => client.destroy(), silentMs)
      yield chunk
      clearTimeout(late)
      late = watch()
    }
  } finally {
    clearTimeout(late)
  }
}

function passUpgrade(
  visit: Visit,
  lease: Lease,
  call: { path: string; headers: Record<string, string | string[]> },
  answer: Extract<Answer, { kind: 'function' }>,
  { firstByteMs, silentMs }: FunctionTimings,
  head: Buffer,
): Promise<void> {
  const { socket } = visit
  return new Promise((resolve, reject) => {
    const asked = request({ socketPath: lease.socketPath, method: visit.method, ...call, agent: false })
    const late = setTimeout(() => asked.destroy(noFirstByte(firstByteMs)), firstByteMs)
    const onLeft = (): void => void asked.destroy()
    socket.once('close', onLeft)
    asked.on('error', reject)
    asked.once('upgrade', (response, slot, first) => {
      clearTimeout(late)
      socket.off('close', onLeft)
      lease.countAsStream()
      visit.beginUpgraded()
      const headers = mergeAnswerHeaders(answer, pairsOf(response.headers), visit.hostname)
      const lines = ['HTTP/1.1 101 Switching Protocols', 'Connection: Upgrade', 'Upgrade: websocket']
      for (const [name, value] of headers) lines.push(`${name}: ${value}`)
      // Headers are read as Latin-1, so this writes the bytes that came.
      socket.write(`${lines.join('\r\n')}\r\n\r\n`, 'latin1')
      if (first.length > 0) socket.write(first)
      if (head.length > 0) slot.write(head)
      socket.setTimeout(0)
      socket.setKeepAlive(true, ALIVE_MS)
      socket.setNoDelay(true)
      join(socket, slot, ({ received, sent }) => {
        visit.endUpgraded(101, received, sent)
        resolve()
      })
    })
    asked.once('response', (response) => {
      clearTimeout(late)
      const headers = mergeAnswerHeaders(answer, pairsOf(response.headers), visit.hostname)
      const sent = [...flatten(headers), 'connection', 'close']
      visit.stream(response.statusCode ?? 502, sent, unlessSilent(response, socket, silentMs)).then(resolve, reject)
    })
    asked.once('close', () => clearTimeout(late))
    asked.end()
  })
}
