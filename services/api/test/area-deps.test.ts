import { expect, onTestFinished, test } from 'vitest'
import { serviceEnvironment } from '@platform/testing/service-process'
import type { Opened } from '../src/area.ts'
import { endpoint as aiEndpoint, type upstreamEndpoint as aiUpstream } from '../src/areas/ai/deps.ts'
import type { DeployDeps } from '../src/areas/deploy/deps.ts'
import type { EdgeDeps } from '../src/areas/edge/deps.ts'
import { endpoint as storageEndpoint } from '../src/areas/storage/deps.ts'
import { endpoint as tenancyEndpoint } from '../src/areas/tenancy/deps.ts'
import { compose } from '../src/compose.ts'
import { loadConfig } from '../src/config.ts'
import { endpoints } from '../src/endpoints.ts'

/** An operation but for what it does. */
const operation = {
  operation: 'probe',
  on: 'GET /probe',
  spec: 'A',
  tag: 'Probe',
  summary: 'Probe',
  description: 'Probe.',
  actor: 'any',
  scope: 'platform:organizations:read',
  returns: [204],
} as const
type Job<Deps extends DeployDeps | EdgeDeps> = NonNullable<Opened<Deps>['jobs']>[number]

/** Each of these reads a member of another area. `tsc` fails where one of them compiles: its comment then expects an error in vain. */
void [
  storageEndpoint({
    ...operation,
    reach: async () => undefined,
    // @ts-expect-error -- the edge runs Functions
    handle: async ({ deps }) => void deps.functions,
  }),
  storageEndpoint({
    ...operation,
    // @ts-expect-error -- finding what is reached gets no more than handling it
    reach: async ({ deps }) => void deps.builds,
    handle: async () => undefined,
  }),
  aiEndpoint({
    ...operation,
    reach: async () => undefined,
    // @ts-expect-error -- storage has the bytes
    handle: async ({ deps }) => void deps.blobs,
  }),
  tenancyEndpoint({
    ...operation,
    reach: async () => undefined,
    // @ts-expect-error -- the gateway is above
    handle: async ({ deps }) => void deps.ai,
  }),
]
const answer: Parameters<typeof aiUpstream>[0]['answer'] = async ({ exchange }) => {
  // @ts-expect-error -- storage has the bytes
  void exchange.deps.blobs
  return { status: 204, body: null }
}
const jobs: readonly Job<DeployDeps>[] = [
  {
    name: 'probe',
    // @ts-expect-error -- the edge converts images
    run: async (deps) => void deps.images,
  },
  // @ts-expect-error -- a job of the edge wants what deployments do not have
  { name: 'probe', run: async ({ images }: EdgeDeps) => images.close() },
]
void [answer, jobs]

async function composed() {
  const env = await serviceEnvironment('api', {
    IDP_URL: 'http://localhost:1',
    OBJECTS_URL: 'file:///tmp/platform-no-objects',
  })
  const { deps, close } = await compose(loadConfig(env))
  onTestFinished(close)
  return deps
}

test('the operations that are served are those that are listed', async () => {
  const { areas } = await composed()
  const served = areas.flatMap((area) => area.endpoints.map(({ operation }) => operation))
  expect(served.toSorted()).toEqual(endpoints.map(({ operation }) => operation).toSorted())
})

test('an area is given the core, its own members and those that areas below hand it, and nothing else', async () => {
  const { core, opened } = await composed()
  const own = Object.entries(opened).map(([area, { deps: all }]) => [
    area,
    Object.keys(all)
      .filter((name) => !(name in core))
      .toSorted(),
  ])
  expect(Object.fromEntries(own)).toEqual({
    core: [],
    cluster: [],
    tenancy: [
      'activityFeed',
      'afterAnswer',
      'consoleUrl',
      'invitationEndpoint',
      'mailer',
      'requireOwnerQuota',
      'startPlan',
    ],
    credentials: ['consoleClientIds'],
    ai: ['ai', 'usage'],
    storage: ['accessSigner', 'blobs', 'objectsDomain', 's3Domain', 's3Region', 'uploadLeases'],
    deploy: ['blobs', 'buildLogFeed', 'builder', 'builds', 'partSigner', 'trials', 'variableSigner'],
    observe: ['requestFeed', 'runtimeLogFeed'],
    edge: [
      'accessSigner',
      'blobs',
      'cronQueue',
      'crons',
      'edgeSigner',
      'functionTimings',
      'functions',
      'images',
      'isrPages',
      'isrTags',
      'membership',
      'objectsDomain',
      'place',
      'requestLog',
      'sites',
      'stickyTokens',
    ],
    overview: ['clientsFolder', 'consoleUrl', 'docsClientId', 'document', 'objectsDomain'],
  })
  const shared = new Map<string, unknown>(Object.entries(core))
  const replaced = Object.values(opened).flatMap((area) =>
    Object.entries(area.deps).filter(([name, value]) => shared.has(name) && shared.get(name) !== value),
  )
  expect(replaced).toEqual([])
  expect(shared.size).toBeLessThanOrEqual(22)
})
