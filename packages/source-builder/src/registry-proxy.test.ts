import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, get } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { openRegistryProxy } from './registry-proxy.ts'

const folder = mkdtempSync(join(tmpdir(), 'registry-proxy-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** A registry by a name that no resolver knows, and a proxy that looks it up as the test says. */
async function open(lookUpAll: (host: string) => Promise<{ address: string; family: number }[]>) {
  const registry = createServer((_, outgoing) => outgoing.end('a registry')).listen(0, '127.0.0.1')
  await once(registry, 'listening')
  const { port } = registry.address() as AddressInfo
  const place = `registry.test:${port}`
  const proxy = await openRegistryProxy([new URL(`http://${place}`)], join(folder, `${port}.sock`), lookUpAll)
  return {
    tunnel: () =>
      new Promise<string>((resolve, reject) => {
        const socket = connect(proxy.socket, () => socket.write(`CONNECT ${place} HTTP/1.1\r\nhost: ${place}\r\n\r\n`))
        socket.once('data', (head) => resolve(head.toString('latin1').slice(9, 12))).once('error', reject)
      }),
    ask: () =>
      new Promise<number | undefined>((resolve, reject) => {
        get({ socketPath: proxy.socket, path: `http://${place}/a` }, ({ statusCode }) => resolve(statusCode)).once(
          'error',
          reject,
        )
      }),
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]()
      registry.close()
    },
  }
}

test('a registry that many connections ask for is looked up once', async () => {
  const looked: string[] = []
  await using proxy = await open((host) => {
    looked.push(host)
    return Promise.resolve([{ address: '127.0.0.1', family: 4 }])
  })
  const answers = await Promise.all(Array.from({ length: 50 }, proxy.tunnel))
  expect([new Set(answers), await proxy.ask(), looked]).toEqual([new Set(['200']), 200, ['registry.test']])
})

test('a registry that could not be looked up is looked up again', async () => {
  let looked = 0
  await using proxy = await open(async () => {
    looked++
    if (looked === 1) throw Object.assign(new Error('getaddrinfo EAI_AGAIN'), { code: 'EAI_AGAIN' })
    return [{ address: '127.0.0.1', family: 4 }]
  })
  expect([await proxy.tunnel(), await proxy.tunnel(), looked]).toEqual(['502', '200', 2])
})
