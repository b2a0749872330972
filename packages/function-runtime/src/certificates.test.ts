import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openSandbox, type SandboxMode } from '@platform/sandbox/open-sandbox'
import { OTHER_AUTHORITY, PRIVATE_AUTHORITY } from '@platform/sandbox/test-authorities'
import { findTestObstacle } from '@platform/sandbox/test-obstacle'
import { unless } from '@platform/test-runner/task-meta'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Fixture, openFixture } from '../test/fixture.ts'
import type { FunctionSource } from './function-runtime.ts'

const DRIVERS: { driver: string; mode: SandboxMode; obstacle: string | undefined }[] = [
  { driver: 'plain processes', mode: 'none', obstacle: undefined },
  { driver: 'bubblewrap', mode: 'required', obstacle: findTestObstacle(['bwrap', 'setpriv', 'prlimit']) },
]
const UNKNOWN = 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'

async function serve({ server: certificate }: typeof PRIVATE_AUTHORITY) {
  const server = createServer(certificate, (_, outgoing) => outgoing.end())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return { url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/`, server }
}

describe.each(DRIVERS)('in $driver', ({ mode, obstacle }) => {
  describe('certificates', unless(obstacle), () => {
    let folder: string
    let fixture: Fixture
    let company: Awaited<ReturnType<typeof serve>>
    let own: Awaited<ReturnType<typeof serve>>
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'certificates-'))
      const extraCertificates = join(folder, 'company.pem')
      await writeFile(extraCertificates, PRIVATE_AUTHORITY.certificate)
      fixture = await openFixture((at) => openSandbox({ folder: at, mode, egress: 'host' }), {}, undefined, {
        extraCertificates,
      })
      company = await serve(PRIVATE_AUTHORITY)
      own = await serve(OTHER_AUTHORITY)
    })
    afterAll(async () => {
      await fixture?.close()
      for (const each of [company, own]) each?.server.close()
      await rm(folder, { recursive: true })
    })

    /** A Function that answers with what fetch and https made of both servers. */
    const deploy = (kind: string, variables: Record<string, string> = {}): Promise<FunctionSource> => {
      const code = `
        import { get } from 'node:https'
        const ask = async (url) => [
          await fetch(url).then(({ status }) => status, ({ cause }) => cause.code),
          await new Promise((resolve) => get(url, ({ statusCode }) => resolve(statusCode)).on('error', ({ code }) => resolve(code))),
        ]
        const answer = async (_, outgoing) =>
          outgoing.end(JSON.stringify({ company: await ask('${company.url}'), own: await ask('${own.url}') }))`
      return kind === 'module'
        ? fixture.deploy(
            { 'index.mjs': `${code}\nexport default answer`, 'own.pem': OTHER_AUTHORITY.certificate },
            { variables },
          )
        : fixture.deploy(
            {
              'index.mjs': `${code}\nimport { createServer } from 'node:http'\ncreateServer(answer).listen(process.env.PORT)`,
              'own.pem': OTHER_AUTHORITY.certificate,
            },
            { kind: 'server', command: 'node index.mjs', handler: undefined, variables },
          )
    }
    const trusted = async (source: FunctionSource): Promise<unknown> => JSON.parse((await fixture.request(source)).body)

    describe.each(['module', 'start script'])('as a %s', (kind) => {
      test("a Function trusts the platform's authorities", async () => {
        expect(await trusted(await deploy(kind))).toEqual({ company: [200, 200], own: [UNKNOWN, UNKNOWN] })
      })

      test('its own NODE_EXTRA_CA_CERTS replaces the authorities that the platform added', async () => {
        const source = await deploy(kind, { NODE_EXTRA_CA_CERTS: 'own.pem' })
        expect(await trusted(source)).toEqual({ company: [UNKNOWN, UNKNOWN], own: [200, 200] })
      })

      test('NODE_USE_SYSTEM_CA adds the store of the machine to its own authorities', async () => {
        const source = await deploy(kind, { NODE_EXTRA_CA_CERTS: 'own.pem', NODE_USE_SYSTEM_CA: '1' })
        expect(await trusted(source)).toEqual({ company: [200, 200], own: [200, 200] })
      })

      test("a Function whose file of authorities is missing trusts Node's alone, and logs a warning", async () => {
        const source = await deploy(kind, { NODE_EXTRA_CA_CERTS: '/var/task/none.pem' })
        expect(await trusted(source)).toEqual({ company: [UNKNOWN, UNKNOWN], own: [UNKNOWN, UNKNOWN] })
        await expect
          .poll(() =>
            fixture.messages().filter((each) => each.includes('Ignoring extra certs from `/var/task/none.pem`')),
          )
          .not.toEqual([])
      })
    })
  })
})
