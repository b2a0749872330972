import { once } from 'node:events'
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { startUnansweredPort } from '@platform/testing/unanswered-port'
import { expect, onTestFinished, test } from 'vitest'
import { aiTimings } from './timings.ts'
import { LostAnswer, NotConnected, openUpstreamClient } from './upstream-client.ts'

const never = new AbortController().signal

/** Starts a provider with this listener, and a client for it. */
async function startProvider(listener: RequestListener) {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = openUpstreamClient(aiTimings)
  onTestFinished(async () => {
    await client.close()
    server.closeAllConnections()
    server.close()
  })
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`)
  return {
    client,
    ask: (signal = never, headers = {}) =>
      client.ask({ method: 'POST', url, headers, body: Buffer.from('{}') }, signal),
    server,
  }
}

/** Resolves with the provider's side of an exchange that has begun and does not end. */
async function startEndless() {
  const begun = Promise.withResolvers<ServerResponse>()
  const { ask } = await startProvider((_, outgoing) => {
    outgoing.writeHead(200).write('first')
    begun.resolve(outgoing)
  })
  return { ask, provider: begun.promise }
}

test('an answer that is larger than what may wait arrives whole at a slow reader', async () => {
  const bytes = Buffer.alloc(3 * 1_048_576, 'abcdefghijk')
  const { ask } = await startProvider((_, outgoing) => outgoing.end(bytes))
  const { body } = await ask()
  const chunks: Uint8Array[] = []
  for await (const chunk of body) {
    chunks.push(chunk)
    await nextTurn()
  }
  expect(Buffer.concat(chunks).equals(bytes)).toBe(true)
})

test('a connection serves one answer after the other', async () => {
  const ports = new Set<number | undefined>()
  const { ask } = await startProvider((incoming, outgoing) => {
    ports.add(incoming.socket.remotePort)
    outgoing.end('{}')
  })
  for (let n = 0; n < 3; n++) {
    expect((await buffer((await ask()).body)).toString()).toBe('{}')
    // The connection is free only after undici has seen the end.
    await nextTurn()
  }
  expect(ports.size).toBe(1)
})

test('an abort in the middle reaches the provider and the reader', async () => {
  const { ask, provider } = await startEndless()
  const controller = new AbortController()
  const { body } = await ask(controller.signal)
  const closed = once(await provider, 'close')
  const reason = new Error('The client left')
  const reading = (async () => {
    for await (const chunk of body) {
      expect(Buffer.from(chunk).toString()).toBe('first')
      controller.abort(reason)
    }
  })()
  await expect(reading).rejects.toBe(reason)
  await closed
})

test('an abort before the answer begins rejects with its reason', async () => {
  const asked = Promise.withResolvers<ServerResponse>()
  const { ask } = await startProvider((_, outgoing) => asked.resolve(outgoing))
  const controller = new AbortController()
  const answer = ask(controller.signal)
  const closed = once(await asked.promise, 'close')
  const reason = new Error('Too late')
  controller.abort(reason)
  await expect(answer).rejects.toBe(reason)
  await closed
})

test('an abort before there is a connection leaves nothing sent', async () => {
  const silent = await startUnansweredPort()
  onTestFinished(() => silent.close())
  const { client } = await startProvider((_, outgoing) => outgoing.end('{}'))
  const controller = new AbortController()
  const url = new URL(`http://127.0.0.1:${silent.port}/v1`)
  const answer = client.ask({ method: 'POST', url, headers: {}, body: Buffer.from('{}') }, controller.signal)
  await nextTurn()
  controller.abort(new Error('The client left'))
  await expect(answer).rejects.toThrow(NotConnected)
})

test('a reader that stops early ends the exchange', async () => {
  const { ask, provider } = await startEndless()
  const { body } = await ask()
  const closed = once(await provider, 'close')
  for await (const chunk of body) {
    expect(Buffer.from(chunk).toString()).toBe('first')
    break
  }
  await closed
})

test('an answer that is cut off rejects behind what came of it', async () => {
  const { ask, provider } = await startEndless()
  const { body } = await ask()
  const chunks: string[] = []
  const reading = (async () => {
    for await (const chunk of body) {
      chunks.push(Buffer.from(chunk).toString())
      ;(await provider).destroy()
    }
  })()
  await expect(reading).rejects.toThrow('other side closed')
  expect(chunks).toEqual(['first'])
})

test('whoever is not there was sent nothing; whoever hangs up may have worked', async () => {
  const { ask, server } = await startProvider((incoming) => incoming.socket.destroy())
  await expect(ask()).rejects.toThrow(LostAnswer)
  server.close()
  await expect(ask()).rejects.toThrow(NotConnected)
})

test('what no header can carry was sent to nobody', async () => {
  const { ask } = await startProvider((_, outgoing) => outgoing.end('{}'))
  await expect(ask(never, { authorization: 'Bearer sk-with-a-newline\n' })).rejects.toThrow(NotConnected)
})

const dateIn = (ms: number) => () => new Date(Date.now() + ms).toUTCString()
test.each([
  ['7', () => '7', 7],
  ['in an hour', dateIn(3_600_000), expect.closeTo(3_600, -1)],
  ['an hour ago', dateIn(-3_600_000), 0],
  ['soon', () => 'soon', undefined],
])('Retry-After may say seconds or a date: %s', async (_, value, seconds) => {
  // It counts from the answer, which may be long after this file was loaded.
  const { ask } = await startProvider((_, outgoing) => outgoing.writeHead(429, { 'retry-after': value() }).end())
  expect((await ask()).retryAfterSeconds).toEqual(seconds)
})
