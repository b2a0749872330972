import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, get, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { gunzipSync, gzip } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CompressedBody } from './compressed-body.ts'
import { openCompressors } from './compressors.ts'

const compress = promisify(gzip)
/** Room for one stream. */
const ACCOUNT_BYTES = 700_000
const PIECE = Buffer.from(randomBytes(48_000).toString('base64'))

let outgoing: ServerResponse
const server = createServer((_, response) => (outgoing = response))
beforeAll(() => once(server.listen(0, '127.0.0.1'), 'listening'))
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

/** A body on a real answer, of which its visitor takes nothing until `take` is called. */
async function open(length?: number) {
  const asked = once(server, 'request')
  const sent = get({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', agent: false })
  sent.on('error', () => {})
  await asked
  const written: Buffer[] = []
  const heads: boolean[] = []
  let isOpen = false
  let onReady: (() => void) | undefined
  const receiver = {
    outgoing,
    socket: outgoing.req.socket,
    write(chunk: Buffer, ready: () => void) {
      written.push(chunk)
      onReady = ready
      return isOpen
    },
    end: (last?: Buffer) => void outgoing.end(last),
  }
  const compressors = openCompressors(ACCOUNT_BYTES)
  const body = new CompressedBody(
    receiver,
    compressors,
    { encoding: 'gzip', length },
    (isCompressed) => void heads.push(isCompressed),
  )
  const take = () => {
    isOpen = true
    onReady?.()
  }
  const isFree = () => {
    const reservation = compressors.reserve('gzip')
    reservation?.release()
    return reservation !== undefined
  }
  return { body, sent, written, heads, take, isFree, compressors }
}

test('a Function is paused while its visitor takes nothing, and goes on when the visitor does', async () => {
  const { body, written, take } = await open()
  let ready = 0
  let pauses = 0
  let sent = 0
  for (; ready === pauses && pauses < 50; pauses++) {
    for (let isRoom = true; isRoom; sent++) {
      isRoom = body.write(PIECE, () => (ready += 1))
      await turn()
    }
    // The threads that compress are through with it by then, were it not for the visitor.
    for (let n = 0; n < 20; n++) await compress(PIECE)
  }
  expect(pauses).toBeLessThan(5)
  expect(written).toHaveLength(1)
  take()
  take()
  await expect.poll(() => ready).toBe(pauses)
  body.end()
  await once(outgoing, 'close')
  expect(gunzipSync(Buffer.concat(written)).length).toBe(sent * PIECE.length)
})

test('a visitor who leaves after the Function has ended gives the memory back', async () => {
  const { body, sent, isFree } = await open()
  body.write(PIECE, () => {})
  await turn()
  body.write(PIECE, () => {})
  body.end()
  await turn()
  expect(isFree()).toBe(false)
  sent.destroy()
  await expect.poll(isFree).toBe(true)
})

test('an answer that breaks off before anything of it was sent leaves room for another', async () => {
  const { body, heads, isFree } = await open()
  body.write(PIECE, () => {})
  body.cut()
  await turn()
  expect(heads).toEqual([])
  expect(isFree()).toBe(true)
  body.end()
  expect(outgoing.writableEnded).toBe(false)
  outgoing.destroy()
})

test('an answer that finds no memory is sent as it is, all of it', async () => {
  const { body, heads, written, compressors } = await open()
  const other = compressors.reserve('gzip')
  body.write(PIECE, () => {})
  body.write(PIECE, () => {})
  await turn()
  expect(heads).toEqual([false])
  body.write(PIECE, () => {})
  body.end()
  expect(Buffer.concat(written)).toEqual(Buffer.concat([PIECE, PIECE, PIECE]))
  other?.release()
})

test('a body of known length that comes in two turns is compressed in one go', async () => {
  const { body, written, isFree } = await open(2 * PIECE.length)
  body.write(PIECE, () => {})
  await turn()
  expect(isFree()).toBe(true)
  body.write(PIECE, () => {})
  body.end()
  expect(written).toEqual([])
  await once(outgoing, 'finish')
})

test('a body of known length whose rest does not come is sent as far as it has come', async () => {
  const { body, written } = await open(2 * PIECE.length)
  body.write(PIECE, () => {})
  await expect.poll(() => written.length).toBe(1)
  outgoing.destroy()
})
