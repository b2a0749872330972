import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { scopeRequests, scopes } from './request-scope.ts'

/** A server that answers as instructed; `release` releases held answers. */
async function serve(answer: (response: ServerResponse, work: Promise<void>) => unknown) {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  // The server may fail before the request arrives.
  promise.catch(() => {})
  const server = createServer((_, response) => void answer(response, promise))
  scopeRequests(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  let text: string | undefined
  const pendingAnswer = fetch(url).then(async (response) => (text = await response.text()))
  return { asked: pendingAnswer, soFar: () => text, release: resolve, fail: reject }
}

test('an answer waits for what its visitor is to see next, whole and in order', async () => {
  const {
    asked: answer,
    soFar,
    release,
  } = await serve((response, work) => {
    scopes.getStore()?.holdAnswer(work)
    response.setHeader('content-length', 6)
    response.write('one', () => response.end('two'))
  })
  await sleep(50)
  expect(soFar()).toBeUndefined()
  release()
  expect(await answer).toBe('onetwo')
})

test('work that fails, and work that comes too late, hold nothing up', async () => {
  const failed = await serve((response, work) => {
    scopes.getStore()?.holdAnswer(work)
    response.end('failed')
  })
  failed.fail()
  expect(await failed.asked).toBe('failed')
  const late = await serve((response, work) => {
    response.end('late')
    scopes.getStore()?.holdAnswer(work)
  })
  expect(await late.asked).toBe('late')
})

test('a stream that waits goes on where it was', async () => {
  const { asked: answer, release } = await serve(async (response, work) => {
    response.write('a')
    scopes.getStore()?.holdAnswer(work)
    if (!response.write('b')) await once(response, 'drain')
    response.end('c')
  })
  await sleep(20)
  release()
  expect(await answer).toBe('abc')
})
