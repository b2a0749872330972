import { randomInt, randomUUID } from 'node:crypto'
import type { TestPlatform } from '@platform/testing/platform'
import { and, desc, eq } from 'drizzle-orm'
import { aiVideoJobs } from '../src/areas/ai/gateway/table.ts'
import { aiPolicies } from '../src/areas/ai/governance/table.ts'
import { applications } from '../src/areas/tenancy/applications/table.ts'
import { setMember } from '../src/areas/tenancy/organizations/members.ts'
import { members } from '../src/areas/tenancy/organizations/table.ts'
import { cronIdOf } from '../src/areas/deploy/deployments/crons.ts'
import { deploymentCrons } from '../src/areas/deploy/deployments/table.ts'
import { deployments } from '../src/areas/deploy/deployments/table.ts'
import { requestLogs } from '../src/areas/observe/request-logs/table.ts'
import { openRequestLog } from '../src/areas/observe/request-logs/write.ts'
import { type Operation, resolved } from './operations.ts'
import { newKey, type Owner, servedRequest, storeObject, unique } from './scenario.ts'

/** Something that a request may name by its id. */
interface Thing {
  /** As its 404 calls it. */
  title: string
  /** An API key may learn of an organization or application that it exists elsewhere, of anything below not (D17). */
  rank: 'organization' | 'application' | 'child'
  /** The id of one that this owner has; of a child, a new one. parent: what the same request names of another thing. */
  make: (platform: TestPlatform, owner: Owner, parent?: (thing: Thing) => Promise<string>) => Promise<string>
  /** True for names out of a list that is the same for everybody: there is no foreign one. */
  isShared?: boolean
  /** True where the path takes a name, of which none is malformed. */
  isNamed?: boolean
}

async function made(platform: TestPlatform, token: string, on: string, body: object, member = 'id'): Promise<string> {
  const answer = await platform.call(token, on, body)
  if (answer.status !== 201) throw new Error(`${on} made nothing: ${answer.status} ${answer.text}`)
  return (answer.body as Record<string, string>)[member] ?? ''
}
const variable = () => ({ key: `KEY_${unique()}`, value: 'x' })

const organization: Thing = {
  title: 'Organization',
  rank: 'organization',
  make: async (_, { organizationId }) => organizationId,
}
const application: Thing = {
  title: 'Application',
  rank: 'application',
  make: async (_, { applicationId }) => applicationId,
}
/** The policy is of the organization that the application stands in, which of some owners is not their own. */
const applicationWithPolicy: Thing = {
  ...application,
  async make({ api: { db, now } }, { applicationId }) {
    const isIt = eq(applications.id, applicationId)
    const [row] = await db.select({ organizationId: applications.organizationId }).from(applications).where(isIt)
    if (!row) throw new Error(`No application ${applicationId}`)
    const time = now()
    await db
      .insert(aiPolicies)
      .values({
        ...row,
        id: randomUUID(),
        applicationId,
        requireZdr: false,
        allowFallbacks: true,
        createdAt: time,
        updatedAt: time,
      })
      .onConflictDoNothing()
    return applicationId
  },
}
/** An application has its environments for good, so each is looked up once. */
const environments = new Map<string, Promise<string>>()
const environment: Thing = {
  title: 'Environment',
  rank: 'child',
  isNamed: true,
  make(platform, { token, applicationId }) {
    const variables = `POST /applications/${applicationId}/env-vars`
    const inProduction = { ...variable(), environment: 'production' }
    const lookup = environments.get(applicationId) ?? made(platform, token, variables, inProduction, 'environmentId')
    environments.set(applicationId, lookup)
    return lookup
  },
}

const bucketsOf = ({ applicationId }: Owner) => `/applications/${applicationId}/storage/buckets`
const newSession = () => ({ key: 'photos/cat.jpg', contentLength: 1, checksumSha256: '0'.repeat(64) })
const bucket: Thing = {
  title: 'Bucket',
  rank: 'child',
  isNamed: true,
  make: (platform, owner) => made(platform, owner.token, `POST ${bucketsOf(owner)}`, { name: `b-${unique()}` }, 'name'),
}
const object: Thing = {
  title: 'Object',
  rank: 'child',
  async make(platform, owner) {
    const bucketId = await made(platform, owner.token, `POST ${bucketsOf(owner)}`, { name: `b-${unique()}` })
    return (await storeObject(platform, bucketId, 'photos/cat.jpg', 'x')).id
  },
}
const trashedObject: Thing = {
  ...object,
  async make(platform, owner) {
    const id = await object.make(platform, owner)
    const path = `/applications/${owner.applicationId}/environments/production/objects/${id}`
    await platform.call(owner.token, `DELETE ${path}`)
    return id
  },
}
const uploadSession: Thing = {
  title: 'Upload session',
  rank: 'child',
  async make(platform, owner, parent = (thing) => thing.make(platform, owner)) {
    const name = await parent(bucket)
    const begun = await platform.call(owner.token, `POST ${bucketsOf(owner)}/${name}/uploads`, newSession())
    return begun.body.session.id as string
  },
}
const deployment: Thing = {
  title: 'Deployment',
  rank: 'child',
  make: (platform, { token, applicationId }) => made(platform, token, 'POST /deployments', { applicationId }),
}
const activeDeployment: Thing = {
  ...deployment,
  async make(platform, owner) {
    const id = await deployment.make(platform, owner)
    await platform.api.db.update(deployments).set({ status: 'ACTIVE' }).where(eq(deployments.id, id))
    return id
  },
}
/** A cron of a deployment that answers. */
const cron: Thing = {
  title: 'Cron',
  rank: 'child',
  async make(platform, owner, parent = (thing) => thing.make(platform, owner)) {
    const { db } = platform.api
    const deploymentId = await parent(deployment)
    await db.update(deployments).set({ status: 'ACTIVE' }).where(eq(deployments.id, deploymentId))
    const options = { path: `/${unique()}`, schedule: '0 0 29 2 *' }
    const id = cronIdOf(deploymentId, options)
    await db.insert(deploymentCrons).values({ id, deploymentId, n: randomInt(2 ** 31), ...options })
    return id
  },
}
/** The upload of a deployment, with its first part. */
const upload: Thing = {
  title: 'Upload',
  rank: 'child',
  async make(platform, owner, parent = (thing) => thing.make(platform, owner)) {
    const path = `/deployments/${await parent(deployment)}/upload`
    const { uploadId } = (await platform.call(owner.token, `POST ${path}/start`)).body as { uploadId: string }
    const part = await platform.call(owner.token, `POST ${path}/part`, { uploadId, partNumber: 1 })
    await fetch(part.body.url as string, { method: 'PUT', body: 'x' })
    return uploadId
  },
}
/** AI providers as an operator might list them, many more than are asked for. */
export const testProviders = {
  providers: Array.from({ length: 500 }, (_, n) => ({
    id: `provider-${n}`,
    driver: 'openai-compatible',
    baseUrl: 'http://127.0.0.1:1/v1',
  })),
  models: [],
}
let providersNamed = 0
const newProviderId = () => `provider-${providersNamed++ % testProviders.providers.length}`
const providerKey = { key: 'sk-0123456789abcdef' }

/** Somebody else's membership. */
const membership: Thing = {
  title: 'Membership',
  rank: 'child',
  async make({ api }, { organizationId }) {
    const userId = randomUUID()
    await setMember(api, organizationId, userId, 'MEMBER')
    const isIt = and(eq(members.organizationId, organizationId), eq(members.userId, userId))
    const [row] = await api.db.select({ id: members.id }).from(members).where(isIt)
    return row?.id ?? ''
  },
}
const invitation = () => ({ email: `${unique()}@example.com`, role: 'MEMBER' })

const ETAG_OF_X = '9dd4e461268c8034f5c8564e155c67a6'
const inEnvironment = '/applications/{applicationId}/environments/{environment}'

/** A video of an application, of which the bytes are there. */
const video: Thing = {
  title: 'Video',
  rank: 'child',
  async make(platform, owner) {
    // A key's call belongs to its application, whichever organization that stands in.
    const { token } = await newKey(platform, owner, ['network:ai_gateway:chat'])
    const job = await platform.call(token, 'POST /ai/v1/videos', { model: 'local/echo-video', prompt: 'A ball' })
    const id = job.body.id as string
    const done = { status: 'completed', duration: 1, pollAt: null } as const
    await platform.api.db.update(aiVideoJobs).set(done).where(eq(aiVideoJobs.id, id))
    return id
  },
}

/** What each parameter of a path names, by the path up to it. */
const namedInPath: Record<string, Thing> = {
  '/organizations/{id}': organization,
  '/organizations/{id}/products/{product}': {
    title: 'Product',
    rank: 'child',
    make: async () => 'network',
    isShared: true,
  },
  '/organizations/{id}/env-vars/{varId}': {
    title: 'Variable',
    rank: 'child',
    make: (platform, { token, organizationId }) =>
      made(platform, token, `POST /organizations/${organizationId}/env-vars`, variable()),
  },
  '/organizations/{id}/invitations/{invitationId}': {
    title: 'Invitation',
    rank: 'child',
    make: (platform, { token, organizationId }) =>
      made(platform, token, `POST /organizations/${organizationId}/invitations`, invitation()),
  },
  '/memberships/{membershipId}': membership,
  '/organizations/{id}/ai-gateway/provider-keys/{provider}': {
    title: 'Provider key',
    rank: 'child',
    isNamed: true,
    async make(platform, { token, organizationId }) {
      const provider = newProviderId()
      await platform.call(
        token,
        `PUT /organizations/${organizationId}/ai-gateway/provider-keys/${provider}`,
        providerKey,
      )
      return provider
    },
  },
  '/applications/{id}': application,
  '/applications/{id}/env-vars/{varId}': {
    title: 'Variable',
    rank: 'child',
    make: (platform, { token, applicationId }) =>
      made(platform, token, `POST /applications/${applicationId}/env-vars`, variable()),
  },
  '/applications/{id}/requests/{requestId}': {
    title: 'Request',
    rank: 'child',
    async make(platform, { applicationId }) {
      const log = openRequestLog(platform.api)
      log.write(servedRequest({ applicationId, path: `/${unique()}` }))
      await log.close()
      const [row] = await platform.api.db
        .select({ id: requestLogs.id })
        .from(requestLogs)
        .where(eq(requestLogs.applicationId, applicationId))
        .orderBy(desc(requestLogs.id))
        .limit(1)
      return row?.id ?? ''
    },
  },
  '/applications/{applicationId}': application,
  [inEnvironment]: environment,
  [`${inEnvironment}/buckets/{bucket}`]: bucket,
  [`${inEnvironment}/buckets/{bucket}/uploads/{sessionId}`]: uploadSession,
  [`${inEnvironment}/objects/{objectId}`]: object,
  [`${inEnvironment}/trash/{objectId}`]: trashedObject,
  '/deployments/{id}': deployment,
  '/deployments/{id}/crons/{cronId}': cron,
  '/ai/v1/videos/{id}': video,
  '/ai/v1/models/{id}': {
    title: 'Model',
    rank: 'child',
    make: async () => 'local/echo',
    isShared: true,
    isNamed: true,
  },
  '/api-keys/{apiKeyId}': {
    title: 'API key',
    rank: 'child',
    make: (platform, { token, applicationId }) =>
      made(platform, token, 'POST /api-keys', { name: 'ci', applicationId }),
  },
}

/** What a parameter names to one operation, where it is another thing, or in another state, than to its neighbours. */
const namedByOperation: Record<string, Thing> = {
  'promoteDeployment.id': activeDeployment,
  'deleteAiPolicy.applicationId': applicationWithPolicy,
  'setAiProviderKey.provider': { title: 'Provider', rank: 'child', make: async () => newProviderId(), isShared: true },
}

/** What members of a query or body name, wherever they stand. */
const namedElsewhere: Record<string, Thing> = {
  organizationId: organization,
  applicationId: application,
  environment,
  environmentId: environment,
  uploadId: upload,
  'X-Organization-Id': organization,
  'OpenAI-Organization': organization,
  'X-Application-Id': application,
}

/** A right request. `ids` holds the ids it shall name, by the member's name; whatever else must differ is made up anew. */
export interface Recipe {
  query?: (ids: Record<string, string>) => Record<string, string>
  body?: (ids: Record<string, string>) => Record<string, unknown>
  headers?: (ids: Record<string, string>) => Record<string, string>
  /** Ids that narrow a list or have to agree with the path, and are never looked up. */
  filters?: readonly string[]
  /** What the caller must hold besides the scope of the operation (D7). */
  alsoNeeds?: readonly string[]
}

/** A call of the AI gateway says by headers where it belongs. */
const placed = {
  headers: ({ 'X-Organization-Id': organizationId = '', 'X-Application-Id': applicationId = '' }) => ({
    'X-Organization-Id': organizationId,
    'X-Application-Id': applicationId,
  }),
}
export const oneSecondOfNothing = Buffer.alloc(44 + 16_000).toString('base64')

/** For each operation that takes a query or a body, a right one. Every id that it may name stands in it. */
const recipes: Record<string, Recipe> = {
  listOrganizations: { query: () => ({ limit: '5' }) },
  createOrganization: { body: () => ({ name: `Org ${unique()}` }) },
  createOrganizationVariable: { body: () => variable() },
  createInvitation: { body: invitation },
  updateOrganizationVariable: { body: () => ({ value: 'c' }) },
  setAiProviderKey: { body: () => providerKey },
  getAiPolicy: { query: ({ applicationId = '' }) => ({ applicationId }) },
  // What they allow is more than any other request here wants.
  setAiPolicy: { body: ({ applicationId }) => ({ applicationId, maxOutputTokens: 1_000_000 }) },
  deleteAiPolicy: { query: ({ applicationId = '' }) => ({ applicationId }) },
  summarizeAiUsage: { query: ({ applicationId = '' }) => ({ applicationId }), filters: ['requestId'] },
  listAiUsageRequests: { query: ({ applicationId = '' }) => ({ applicationId }), filters: ['requestId'] },
  exportAiUsage: { query: ({ applicationId = '' }) => ({ applicationId }), filters: ['requestId'] },
  replaceAiBudgets: { body: () => ({ budgets: [{ maxRequests: 1_000_000 }] }) },
  listApplications: { query: ({ organizationId = '' }) => ({ organizationId }) },
  getOverview: { query: () => ({ limit: '5' }) },
  listActivity: { query: () => ({ limit: '5', type: 'hostname.set' }) },
  createApplication: { body: ({ organizationId }) => ({ organizationId, name: `App ${unique()}` }) },
  getHostnameAvailability: { query: () => ({ label: `my-shop-${unique()}` }) },
  setHostname: { body: () => ({ label: `my-shop-${unique()}` }) },
  createApplicationVariable: { body: ({ environmentId }) => ({ ...variable(), environmentId }) },
  updateApplicationVariable: { body: () => ({ value: 'c' }) },
  pullVariables: { query: ({ environment = '' }) => ({ environment }) },
  createApiKey: {
    body: ({ applicationId }) => ({ name: 'ci', applicationId, scopes: ['network:env_vars:read'] }),
    alsoNeeds: ['network:env_vars:read'],
  },
  listRequests: {
    query: () => ({ limit: '5', statusFamily: '2xx' }),
    filters: ['deploymentId', 'deploymentFunctionId', 'deploymentAssetId', 'storageBucketId', 'storageObjectId'],
  },
  listRuntimeLogs: { query: () => ({ limit: '5', level: 'WARN' }), filters: ['functionId'] },
  listApplicationRuntimeLogs: { query: () => ({ limit: '5', level: 'WARN' }), filters: ['functionId'] },
  streamRuntimeLogs: { query: () => ({ level: 'WARN' }), filters: ['functionId'] },
  streamApplicationRuntimeLogs: { query: () => ({ level: 'WARN' }), filters: ['functionId'] },
  summarizeRequests: { query: () => ({ groupBy: 'status' }) },
  createBucket: { body: () => ({ name: `b-${unique()}` }), filters: ['environmentId'] },
  deleteBucket: { query: () => ({ force: 'true' }) },
  listObjects: { query: () => ({ limit: '5', prefix: 'photos/', delimiter: '/' }) },
  trashObjects: { query: () => ({ prefix: 'photos/' }) },
  listTrash: { query: () => ({ limit: '5' }) },
  createUploadSession: { body: newSession },
  restoreObjects: { body: () => ({ prefix: 'photos/' }) },
  getObjectAccessUrl: { query: () => ({ expiresInSeconds: '60' }) },
  listDeployments: {
    query: ({ applicationId = '', environment = '' }) => ({ applicationId, environment }),
    filters: ['organizationId'],
  },
  createDeployment: {
    body: ({ applicationId, environmentId }) => ({ applicationId, environmentId, git: { branch: 'main' } }),
  },
  createPartUrl: { body: ({ uploadId }) => ({ uploadId, partNumber: 1 }) },
  completeUpload: { body: ({ uploadId }) => ({ uploadId, parts: [{ partNumber: 1, etag: ETAG_OF_X }] }) },
  listBuildLogs: { query: () => ({ limit: '5' }) },
  listDeploymentFunctions: { query: () => ({ limit: '5' }) },
  listCronRuns: { query: () => ({ limit: '5' }) },
  inspectImageCache: { query: () => ({ source: '/cats/tabby.jpg' }) },
  purgeImageCache: { query: () => ({ source: '/cats/tabby.jpg' }) },
  listDeploymentFiles: { query: () => ({ limit: '5' }) },
  createStickyUrl: { body: () => ({ key: 'cart-4711', endpoint: '/carts/4711' }) },
  listApiKeys: { query: ({ applicationId = '' }) => ({ applicationId }) },
  createChatCompletion: {
    ...placed,
    body: () => ({ model: 'local/echo', messages: [{ role: 'user', content: `Hello ${unique()}` }] }),
  },
  createResponse: { ...placed, body: () => ({ model: 'local/echo', input: `Hello ${unique()}` }) },
  createSpeech: {
    ...placed,
    body: () => ({ model: 'local/echo-speech', input: 'Hello', voice: 'alloy', response_format: 'wav' }),
  },
  createTranscription: {
    ...placed,
    body: () => ({ model: 'local/echo-transcribe', input_audio: { data: oneSecondOfNothing, format: 'wav' } }),
  },
  createVideo: { ...placed, body: () => ({ model: 'local/echo-video', prompt: 'A ball', duration: 1 }) },
  listModels: placed,
  getModel: placed,
  listVideoModels: placed,
  getVideo: placed,
  getVideoContent: placed,
}

/** An id in a request. */
export interface Reference {
  on: 'path' | 'query' | 'body' | 'header'
  name: string
  thing: Thing
  /** Its shape is the schema's: a malformed one in a query or body is a 422 (D16). */
  isUuid: boolean
}

const membersOf = (operation: Operation) => {
  const body = resolved(operation.requestBody?.content['application/json']?.schema ?? {}).properties ?? {}
  const query = (operation.parameters ?? []).filter((parameter) => parameter.in === 'query')
  return { query: Object.fromEntries(query.map(({ name, schema }) => [name, schema])), body }
}

/** How to ask for the operation. Throws with a sentence on what to add where this file does not know. */
export function recipeOf(operation: Operation): Recipe {
  const { operationId, parameters = [], requestBody } = operation
  const recipe = recipes[operationId] ?? {}
  const line = `${operationId} (${operation.method} ${operation.path})`
  if (requestBody && !recipe.body)
    throw new Error(
      `${line} takes a body: add a right one to \`recipes\` in test/recipes.ts, { ${operationId}: { body: … } }`,
    )
  if (parameters.some((parameter) => parameter.in === 'query') && !recipe.query)
    throw new Error(
      `${line} takes a query: add a right one to \`recipes\` in test/recipes.ts, { ${operationId}: { query: … } }`,
    )
  const { query, body } = membersOf(operation)
  const sent = { ...recipe.query?.({}), ...recipe.body?.({}) }
  for (const [name, schema] of Object.entries({ ...query, ...body })) {
    if (resolved(schema).format !== 'uuid' || name === 'from') continue // a `from` that is gone still works (D30)
    if (recipe.filters?.includes(name)) continue
    if (!namedElsewhere[name])
      throw new Error(`${line} names something by ${name}: say what in \`namedElsewhere\` in test/recipes.ts`)
    if (!(name in sent))
      throw new Error(`${line} may name something by ${name}: let its recipe in test/recipes.ts do so`)
  }
  return recipe
}

/** The ids that a request for the operation names, in the order they are looked up: path, query, body, headers. */
export function referencesOf(operation: Operation): Reference[] {
  const recipe = recipeOf(operation)
  const { query, body } = membersOf(operation)
  const references = [...operation.path.matchAll(/\{(\w+)\}/g)].map(({ 0: braced, 1: name = '', index }): Reference => {
    const text = operation.path.slice(0, index + braced.length)
    const thing = namedByOperation[`${operation.operationId}.${name}`] ?? namedInPath[text]
    if (!thing)
      throw new Error(
        `${operation.operationId} has ${text} in its path: say in \`namedInPath\` in test/recipes.ts what that names and how one is made`,
      )
    return { on: 'path', name, thing, isUuid: !thing.isShared && !thing.isNamed }
  })
  const more = (on: 'query' | 'body', sent: object, schemas: typeof query) => {
    for (const name of Object.keys(sent)) {
      const thing = namedByOperation[`${operation.operationId}.${name}`] ?? namedElsewhere[name]
      if (thing) references.push({ on, name, thing, isUuid: resolved(schemas[name] ?? {}).format === 'uuid' })
    }
  }
  more('query', recipe.query?.({}) ?? {}, query)
  more('body', recipe.body?.({}) ?? {}, body)
  for (const name of Object.keys(recipe.headers?.({}) ?? {})) {
    const thing = namedElsewhere[name]
    if (thing) references.push({ on: 'header', name, thing, isUuid: true })
  }
  return references
}

/** The request for an operation with these ids, one for each of its references. */
export function requestFor(
  operation: Operation,
  ids: readonly string[],
): { method: string; path: string; body?: Record<string, unknown>; headers?: Record<string, string> } {
  const recipe = recipeOf(operation)
  const named = referencesOf(operation).map((reference, n) => ({ ...reference, id: ids[n] ?? '' }))
  const of = (on: Reference['on']) =>
    Object.fromEntries(named.filter((reference) => reference.on === on).map(({ name, id }) => [name, id]))
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => of('path')[name] ?? '')
  const query = recipe.query ? `?${new URLSearchParams(recipe.query(of('query'))).toString()}` : ''
  return {
    method: operation.method,
    path: `${path}${query}`,
    ...(recipe.body && { body: recipe.body(of('body')) }),
    ...(recipe.headers && { headers: recipe.headers(of('header')) }),
  }
}

/** Makes the thing that a member of a request names; undefined where there is nothing to make. */
export type MakeNamed = (operation: Operation, on: Reference['on'], name: string) => Promise<string> | undefined

/** What one request names, made once each and below one another. */
export function makerFor(platform: TestPlatform, owner: Owner): MakeNamed {
  const made = new Map<string, Promise<string>>()
  function make(thing: Thing): Promise<string> {
    const id = made.get(thing.title) ?? thing.make(platform, owner, make)
    made.set(thing.title, id)
    return id
  }
  return (operation, on, name) => {
    const inPath = operation.path.slice(0, operation.path.indexOf(`{${name}}`) + name.length + 2)
    const thing =
      namedByOperation[`${operation.operationId}.${name}`] ??
      (on === 'path' ? namedInPath[inPath] : namedElsewhere[name])
    return thing && !thing.isShared ? make(thing) : undefined
  }
}
