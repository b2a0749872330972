import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { RefusedAddress } from './check-url.ts'
import { createGuardedConnector } from './guarded-connector.ts'
import { createAddressGuard } from './public-address.ts'

const server = createServer((socket) => socket.on('error', () => {}).resume())
let port = ''
beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  port = String((server.address() as AddressInfo).port)
})
afterAll(() => new Promise((resolve) => server.close(resolve)))

const connect = (allow: string[]): Promise<string> =>
  new Promise((resolve, reject) => {
    const lookup = () => Promise.reject(new Error('An address within a URL is not looked up'))
    const connector = createGuardedConnector(lookup, createAddressGuard(allow), 5_000)
    connector({ hostname: '127.0.0.1', protocol: 'http:', port }, (...[error, socket]) => {
      socket?.destroy()
      if (error === null) resolve('connected')
      else reject(error)
    })
  })

test('a socket that is connected to an address nobody judged is judged by that address', async () => {
  await expect(connect([])).rejects.toBeInstanceOf(RefusedAddress)
  expect(await connect(['127.0.0.1'])).toBe('connected')
})
