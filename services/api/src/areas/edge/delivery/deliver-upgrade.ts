import { type IncomingMessage, request } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { FunctionFailure } from '@platform/function-runtime/function-runtime'
import type { Answer, HeaderPairs } from '@platform/build-output/router'
import { mergeAnswerHeaders, pairsOf } from './answer-headers.ts'
import { type FunctionTimings, isEventStream, noFirstByte, silentAnswer } from './call-function.ts'
import { acquireFor, answerFailure, headersFor, throwUnlessOfFunction, unreadable } from './deliver-function.ts'
import type { DeployedFunction } from './deployed-site.ts'
import type { FunctionCaller } from './function-caller.ts'
import type { FunctionLease } from './function-lease.ts'
import { flatten, type Visit } from './visit.ts'

/** How often the kernel probes whether a silent peer is alive. */
const ALIVE_MS = 30_000
/** How long a client may need to receive what a slot sent before it ended. */
const LAST_BYTES_MS = 30_000

/** A slot's connection after it has switched protocols, and the bytes that arrived with the answer. */
interface Upgraded {
  slot: Duplex
  first: Buffer
}

/** The head of a 101 answer. Write it as Latin-1, as its headers were read: that preserves the bytes. */
export const upgradedHead = (headers: HeaderPairs): string =>
  [
    'HTTP/1.1 101 Switching Protocols',
    'Connection: Upgrade',
    'Upgrade: websocket',
    ...headers.map((pair) => pair.join(': ')),
  ]
    .map((line) => `${line}\r\n`)
    .join('') + '\r\n'

/**
 * Joins two connections until either side ends, then reports how many bytes came from each. head: the client's bytes that arrived
 * after its request.
 */
export function join(
  client: Socket,
  { slot, first }: Upgraded,
  head: Buffer,
  onOver: (bytes: { received: number; sent: number }) => void,
): void {
  if (first.length > 0) client.write(first)
  if (head.length > 0) slot.write(head)
  client.setTimeout(0)
  client.setKeepAlive(true, ALIVE_MS)
  client.setNoDelay(true)
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
 * Forwards a WebSocket upgrade, and joins both connections for as long as both sides live. If a Function does not upgrade, its
 * answer is sent as for any request.
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
  let lease: FunctionLease | undefined
  try {
    lease = await acquireFor(caller, visit, fn)
    if (socket.destroyed) return
    const headers = {
      ...headersFor(caller, visit, answer),
      connection: 'upgrade',
      upgrade: 'websocket',
    }
    await passUpgrade(visit, lease, { method: visit.method, path: answer.url, headers }, answer, caller.timings, head)
  } catch (error) {
    if (socket.destroyed) return
    const failure = error instanceof FunctionFailure ? error : await lease?.failure()
    if (failure === undefined) throwUnlessOfFunction(error, lease)
    answerFailure(caller, visit, failure ?? unreadable(error), lease, fn)
    if (!outgoing.writableEnded) outgoing.destroy()
  } finally {
    lease?.release()
  }
}

/** The body of an answer. Throws if the Function is silent for too long; closes the connection of a silent client. */
export async function* unlessSilent(
  response: IncomingMessage,
  client: Socket,
  silentMs: number,
): AsyncGenerator<Buffer> {
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

/** Asks a slot to switch protocols. Rejects with the error; client: the request ends if it disconnects. */
export function askForUpgrade(
  client: Socket,
  lease: FunctionLease,
  call: { method: string; path: string; headers: Record<string, string | string[]> },
  { firstByteMs }: FunctionTimings,
): Promise<{ response: IncomingMessage; upgraded?: Upgraded }> {
  return new Promise((resolve, reject) => {
    const headers = { ...call.headers, ...lease.headers }
    const upstreamRequest = request({ ...lease.connection, ...call, headers, agent: false })
    const late = setTimeout(() => upstreamRequest.destroy(noFirstByte(firstByteMs)), firstByteMs + (lease.graceMs ?? 0))
    const stopWaiting = lease.whileWaiting?.((error) => upstreamRequest.destroy(error))
    const onLeft = (): void => void upstreamRequest.destroy()
    client.once('close', onLeft)
    upstreamRequest.on('error', reject)
    upstreamRequest.once('upgrade', (response, slot, first) => {
      clearTimeout(late)
      stopWaiting?.()
      client.off('close', onLeft)
      resolve({ response, upgraded: { slot, first } })
    })
    upstreamRequest.once('response', (response) => {
      clearTimeout(late)
      const failure = lease.failureIn?.(pairsOf(response.headers))
      if (failure) {
        reject(failure)
        upstreamRequest.destroy()
      } else resolve({ response })
    })
    upstreamRequest.once('close', () => {
      clearTimeout(late)
      stopWaiting?.()
    })
    upstreamRequest.end()
  })
}

async function passUpgrade(
  visit: Visit,
  lease: FunctionLease,
  call: { method: string; path: string; headers: Record<string, string | string[]> },
  answer: Extract<Answer, { kind: 'function' }>,
  timings: FunctionTimings,
  head: Buffer,
): Promise<void> {
  const { socket } = visit
  const { response, upgraded } = await askForUpgrade(socket, lease, call, timings)
  const headers = mergeAnswerHeaders(answer, pairsOf(response.headers), visit.hostname)
  if (upgraded) {
    lease.countAsStream()
    visit.beginUpgraded()
    const stopWaiting = lease.whileWaiting?.(() => upgraded.slot.destroy())
    socket.write(upgradedHead(headers), 'latin1')
    const { received, sent } = await new Promise<{ received: number; sent: number }>((resolve) =>
      join(socket, upgraded, head, resolve),
    )
    stopWaiting?.()
    visit.endUpgraded(101, received, sent)
    return
  }
  const sent = [...flatten(headers), 'connection', 'close']
  const silentMs = timings.silentMs + (lease.graceMs ?? 0)
  await visit.stream(response.statusCode ?? 502, sent, unlessSilent(response, socket, silentMs))
}
