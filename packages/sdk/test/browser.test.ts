import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { approveDevice } from '@platform/testkit/approve-device'
import { describeInChromium } from '@platform/testkit/chromium'
import { freePort } from '@platform/testkit/free-port'
import { and, eq, isNotNull } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { visit } from '../../../services/api/test/deploy.ts'
import { newOwner, type Owner } from '../../../services/api/test/scenario.ts'
import { refreshFamilies } from '../../../services/idp/src/features/refresh/table.ts'
import type * as sdk from '../src/index.ts'
import type * as pack from '../src/pack/index.ts'
import type * as signIn from '../src/sign-in/index.ts'
import type * as uploads from '../src/uploads/index.ts'
import { bundle } from './bundle.ts'

/** What the page's script puts into its window. */
declare const entries: typeof sdk & typeof pack & typeof signIn & typeof uploads
declare const approve: (code: { completeUrl: string; userCode: string }) => Promise<void>

describeInChromium('a page of an allowed origin', (open) => {
  let server: TestPlatform
  let owner: Owner
  let site: Server
  let origin: string
  beforeAll(async () => {
    const port = await freePort()
    origin = `http://localhost:${port}`
    server = await startPlatform({ corsOrigins: [origin], hasWorker: true })
    owner = await newOwner(server)
    const names = ['index', 'pack/index', 'sign-in/index', 'uploads/index']
    const script = await bundle(
      `${names.map((name, n) => `import * as e${n} from '../src/${name}.ts'`).join('\n')}
      window.entries = { ...e0, ...e1, ...e2, ...e3 }`,
    )
    site = createServer((_, response) => {
      response.writeHead(200, { 'content-type': 'text/html' }).end(`<script type="module">${script}</script>`)
    }).listen(port, 'localhost')
    await once(site, 'listening')
  })
  afterAll(async () => {
    site.close()
    await server.close()
  })

  test('signs a person in, calls, uploads a file, deploys dropped files and follows the log, at both of the origins', async () => {
    const { page } = await open()
    await page.exposeFunction('approve', (code: { completeUrl: string; userCode: string }) =>
      approveDevice(code, owner.person),
    )
    await page.goto(origin)
    const given = {
      baseUrl: server.apiUrl,
      clientId: server.publicClientId,
      organizationId: owner.organizationId,
      secret: `svc_secret_${'S'.repeat(43)}`,
    }
    const seen = await page.evaluate(async ({ baseUrl, clientId, organizationId, secret }) => {
      const store = entries.memoryStore()
      const scopes = ['offline_access', 'network:applications:write', 'network:storage:write', 'network:storage:read']
      const trigger = ['network:deployments:trigger', 'network:deployments:read']
      await entries.signInByDevice({ baseUrl, clientId, scopes: [...scopes, ...trigger], store, onCode: approve })
      const platform = new entries.Platform({ baseUrl, credential: entries.userToken({ store }) })
      const application = await entries.createApplication(platform, { body: { organizationId, name: 'From a page' } })
      const place = { applicationId: application.id, environment: 'production' }
      const missing = await entries
        .getDeployment(platform, { id: application.id })
        .catch(({ status, requestId }: sdk.PlatformError) => ({ status, requestId }))
      await entries.createBucket(platform, { ...place, body: { name: 'media' } })
      const data = new File([new Uint8Array(9_000_000).fill(7)], 'sevens')
      const object = await entries.uploadObject(platform, { ...place, bucket: 'media', key: 'sevens', data })
      const source = entries.filesSource([{ path: 'index.html', file: new Blob(['From a page']) }])
      const steps = new Set<string>()
      const deployment = await entries.deployFolder(platform, {
        applicationId: application.id,
        source,
        onProgress: ({ step }) => steps.add(step),
      })
      let refused = ''
      try {
        entries.apiKey({ id: 'key', secret })
      } catch (error) {
        refused = (error as Error).message
      }
      await entries.signOut({ store })
      return {
        missing,
        sha256: object.checksumSha256,
        host: new URL(deployment.url).host,
        steps: [...steps],
        refused,
      }
    }, given)
    expect(seen).toMatchObject({
      missing: { status: 404, requestId: expect.stringMatching(/^[\w-]+$/) as string },
      sha256: createHash('sha256').update(Buffer.alloc(9_000_000, 7)).digest('hex'),
      steps: ['planned', 'created', 'sent', 'complete', 'status', 'log'],
      refused: 'apiKey needs allowInBrowser here',
    })
    expect((await visit(server, seen.host)).text).toBe('From a page')
  })

  test('revokes its sign-in when it is left', async () => {
    const { page } = await open()
    await page.exposeFunction('approve', (code: { completeUrl: string; userCode: string }) =>
      approveDevice(code, owner.person),
    )
    await page.goto(origin)
    const given = { baseUrl: server.apiUrl, clientId: server.publicClientId }
    const refreshToken = await page.evaluate(async ({ baseUrl, clientId }) => {
      const store = entries.memoryStore()
      await entries.signInByDevice({ baseUrl, clientId, scopes: ['offline_access'], store, onCode: approve })
      addEventListener('pagehide', await entries.prepareLeaving({ store }))
      return (await store.read())?.refreshToken ?? ''
    }, given)
    await page.goto('about:blank')
    const { db } = server.idp
    const isOurs = eq(refreshFamilies.id, refreshToken.split('.')[2] ?? '')
    await vi.waitFor(
      async () => expect(await db.$count(refreshFamilies, and(isOurs, isNotNull(refreshFamilies.revokedAt)))).toBe(1),
      60_000,
    )
    const form = { grant_type: 'refresh_token', client_id: server.publicClientId, refresh_token: refreshToken }
    const answer = await fetch(`${server.idpUrl}/oauth2/token`, { method: 'POST', body: new URLSearchParams(form) })
    expect({ status: answer.status, body: await answer.json() }).toMatchObject({
      status: 400,
      body: { error: 'invalid_grant' },
    })
  })
})
