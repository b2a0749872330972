import { once } from 'node:events'
import { connect } from 'node:net'
import { listen } from '@platform/service/http-server'
import { expect, onTestFinished, test } from 'vitest'
import { limitBody } from './limit-body.ts'

const LATE = 'POST /late HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\npart'

/** What a server writes that begins a 10-byte answer to GET requests and waits for the bodies of others. */
async function answersTo(requests: string): Promise<string> {
  const server = await listen(
    (incoming, outgoing) => {
      if (incoming.method === 'GET') outgoing.writeHead(200, { 'content-length': 10 }).write('half')
      else limitBody(incoming, outgoing, 50)
    },
    '127.0.0.1',
    0,
  )
  onTestFinished(() => server.stop(0))
  const socket = connect(server.port, '127.0.0.1').setEncoding('latin1')
  let text = ''
  socket.on('error', () => {})
  socket.on('data', (chunk: string) => (text += chunk))
  const closed = once(socket, 'close')
  socket.write(requests)
  await closed
  return text
}

test('a body that does not arrive is a 408', async () => {
  expect(await answersTo(LATE)).toBe('HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
})

test('the 408 is not written into the answer to the request before', async () => {
  expect(await answersTo(`GET / HTTP/1.1\r\nHost: x\r\n\r\n${LATE}`)).toMatch(/\r\n\r\nhalf$/)
})
