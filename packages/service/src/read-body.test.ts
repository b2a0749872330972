import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { listen } from './http-server.ts'
import { mediaType, readBody } from './read-body.ts'

const MAX = 100

/** Serves one listener that reads a body, and returns the outcome. */
async function startReader(bodyMs?: number): Promise<{ port: number; read: Promise<Buffer> }> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const server = await listen(
    (incoming, outgoing) => {
      readBody(incoming, MAX, bodyMs)
        .then(resolve, reject)
        .finally(() => outgoing.end())
    },
    '127.0.0.1',
    0,
  )
  onTestFinished(() => server.stop(0))
  return { port: server.port, read: promise }
}

/** Sends the pieces, one after another, with a length or in chunks. */
function send(port: number, pieces: string[], headers: Record<string, string> = {}): void {
  const clientRequest = request({ host: '127.0.0.1', port, method: 'POST', headers })
  clientRequest.on('error', () => {})
  for (const piece of pieces) clientRequest.write(piece)
  clientRequest.end()
}

test('a body is read whole, whichever way its length is told', async () => {
  const chunked = await startReader()
  send(chunked.port, ['a'.repeat(60), 'b'.repeat(40)])
  expect((await chunked.read).toString()).toBe('a'.repeat(60) + 'b'.repeat(40))

  const measured = await startReader()
  send(measured.port, ['é'], { 'content-length': '2' })
  expect((await measured.read).toString()).toBe('é')
})

test('a body past the limit is refused: by its length before it comes, in chunks once it is past', async () => {
  const announced = await startReader()
  const socket = connect(announced.port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n')
  await expect(announced.read).rejects.toMatchObject({ status: 413 })

  const counted = await startReader()
  send(counted.port, ['a'.repeat(60), 'b'.repeat(41)])
  await expect(counted.read).rejects.toMatchObject({ status: 413 })
})

test('a body that does not arrive in time is a 408, and the client can be told', async () => {
  const { port, read } = await startReader(50)
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nhalf')
  await expect(read).rejects.toMatchObject({
    status: 408,
    message: 'The body took longer than 0.05 seconds to arrive',
    headers: { connection: 'close' },
  })
  const [answer] = (await once(socket, 'data')) as [Buffer]
  expect(answer.toString()).toMatch(/^HTTP\/1\.1 200 OK/)
})

test('a client that leaves in the middle is a bad request, not a failure', async () => {
  const { port, read } = await startReader()
  const socket = connect(port, '127.0.0.1')
  socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nhalf', () => socket.resetAndDestroy())
  await expect(read).rejects.toMatchObject({ status: 400, message: 'The body ended early' })
})

test('a media type is compared without its parameters and case', () => {
  const of = (type?: string) => mediaType({ headers: { 'content-type': type } } as IncomingMessage)
  expect([of('Application/JSON; charset=utf-8'), of(), of(' text/plain ')]).toEqual([
    'application/json',
    '',
    'text/plain',
  ])
})
