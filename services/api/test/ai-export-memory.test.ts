// engines: none, memory of an export is that of the process
import { randomBytes } from 'node:crypto'
import { unless } from '@platform/test-runner/task-meta'
import { freePort } from '@platform/testkit/free-port'
import { newObjectsUrl } from '@platform/testkit/objects'
import { startPlatform } from '@platform/testing/platform'
import { serviceEnvironment, startServiceProcess, untilStatus } from '@platform/testing/service-process'
import { expect, onTestFinished, test } from 'vitest'
import { watchMemory } from './peak-memory.ts'
import { newOwner } from './scenario.ts'
import { storeEvents, usageEvent } from './usage-events.ts'

const EVENTS = 6_000
const EXPORTS = 3
/** Above what the process holds before: 130 MB here for 2,000 events each, 155 for 6,000 and for 12,000. */
const GROWTH_BYTES_MAX = 220_000_000

test(
  `${EXPORTS} exports of ${EVENTS} of the largest events are made in flat memory`,
  unless(process.platform === 'linux' ? undefined : 'it reads /proc of Linux'),
  async () => {
    const MASTER_KEYS = `test:${randomBytes(32).toString('base64')}`
    const objects = await newObjectsUrl()
    onTestFinished(objects.remove)
    const platform = await startPlatform({ env: { MASTER_KEYS }, objectsUrl: objects.url })
    onTestFinished(() => platform.close())
    const { organizationId, token } = await newOwner(platform)
    const metadata = Object.fromEntries(
      Array.from({ length: 16 }, (_, n) => [String(n).padEnd(64, 'k'), '漢'.repeat(512)]),
    )
    const last = platform.clock.now().getTime()
    await storeEvents(
      platform,
      Array.from({ length: EVENTS }, (_, n) => usageEvent(organizationId, new Date(last - n), { metadata })),
    )
    // Another process of the same API: alone, and as the launcher starts it.
    const port = await freePort()
    const env = await serviceEnvironment('api', {
      PUBLIC_URL: platform.apiUrl,
      PORT: String(port),
      EDGE_PORT: String(await freePort()),
      S3_PORT: '0',
      IDP_URL: platform.idpUrl,
      OBJECTS_URL: objects.url,
      DATABASE_URL: platform.databaseUrl,
      MASTER_KEYS,
      NODE_OPTIONS: '--max-semi-space-size=2',
      MALLOC_ARENA_MAX: '2',
    })
    const { child } = startServiceProcess(new URL('../src/main.ts', import.meta.url), env, 'api')
    const url = `http://localhost:${port}/organizations/${organizationId}/ai-gateway/usage/export`
    await untilStatus(url, 401)
    const growth = watchMemory(child.pid ?? 0)
    const sizes = Array.from({ length: EXPORTS }, async () => {
      const { body } = await fetch(url, { headers: { authorization: `Bearer ${token}` } })
      let bytes = 0
      for await (const chunk of body ?? []) bytes += (chunk as Uint8Array).length
      return bytes
    })
    // Each line has 16 texts of 512 characters of three bytes.
    for (const bytes of await Promise.all(sizes)) expect(bytes).toBeGreaterThan(EVENTS * 16 * 512 * 3)
    expect(growth()).toBeLessThan(GROWTH_BYTES_MAX)
  },
)
