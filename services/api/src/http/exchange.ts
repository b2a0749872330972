import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { AccessToken } from '@platform/auth/token-verifier'
import { ApiError, InvalidToken, Throttled, Unavailable } from '@platform/errors/api-error'
import { type ErrorShape, renderError } from '@platform/errors/render-error'
import { networkOf } from '@platform/ratelimit/client-address'
import { isUnavailable } from '@platform/runtime/database'
import { withDeadline } from '@platform/runtime/deadline'
import { isUuid } from '@platform/runtime/is-uuid'
import { newIdAt } from '@platform/runtime/new-id'
import { isPreflight, preflightHeaders } from '@platform/service/cors'
import { readTrace, type Trace } from '@platform/service/trace'
import type { Context } from 'hono'
import type { Actor } from './actor.ts'
import type { Core } from '../core.ts'
import { DEPLOYMENT_ADDRESS_HEADER, readDeploymentAddress } from './deployment-address.ts'
import { dismiss } from './dismiss.ts'
import { pathOf } from './request-target.ts'

export type HonoContext = Context<{ Bindings: HttpBindings }>

/** An answer before the common headers are added. */
export interface Reply {
  status: number
  headers?: Record<string, string>
  body: string | Buffer | ReadableStream<Uint8Array> | null
}

/** The outcome of an operation that wrote its answer to the socket itself. */
export interface Sent {
  /** The status, for the log. */
  sent: number
  /** The error that occurred after the status had been sent. */
  failure?: unknown
}

/** A request, whichever listener received it, with the deps of the area that answers it. */
export interface Arrival<Deps extends Core = Core> {
  readonly deps: Deps
  readonly incoming: IncomingMessage
  /** The client's address (D56), uncut. Read at arrival: a destroyed request has no socket any more. */
  readonly address: string
  /** As sent, without the query. */
  readonly path: string
  /** True for S3, which has paths and hosts of its own. */
  readonly isS3: boolean
  readonly requestId: string
  /** The caller's trace, if it sent one. */
  readonly trace: Trace | undefined
  /** For the log; set by whatever authenticates the request. */
  actor?: Actor
}

/** A request for one of the operations. */
export interface Exchange<Deps extends Core = Core> extends Arrival<Deps> {
  readonly c: HonoContext
}

/** Deadline of operations that have none of their own. */
export const DEADLINE_MS = 30_000
/** Requests that an address may send in 60 s: without a bearer header, with one, and on the object paths (A §8). */
const ADDRESS_MAX = 600
const ADDRESS_WITH_BEARER_MAX = 6_000
const ADDRESS_OBJECTS_MAX = 24_000
const KEY_MAX = 3_000

const isBelow = (path: string, prefix: string): boolean => path === prefix || path.startsWith(`${prefix}/`)

/** True for paths of the AI gateway, which never adopts a caller's request id (D89). */
const isAi = (path: string): boolean => isBelow(path, '/ai/v1')

/** Which of the four error formats this request gets (A §7, D21). */
export function shapeOf({ path, isS3 }: Pick<Arrival, 'path' | 'isS3'>): ErrorShape {
  if (isS3) return 's3'
  if (isAi(path)) return 'ai-gateway'
  return path === '/oauth2/token' ? 'oauth' : 'resource'
}

const bearerOf = (incoming: IncomingMessage): string | undefined =>
  /^bearer +([^ ]+) *$/i.exec(incoming.headers.authorization ?? '')?.[1]

/**
 * D54: only the `Bearer` scheme counts as a bearer header, whatever follows it. A preflight for a request with `Authorization`
 * is counted like the request it announces (D53).
 */
const hasBearer = ({ method, headers }: IncomingMessage): boolean =>
  /^bearer( |$)/i.test(headers.authorization ?? '') ||
  (method === 'OPTIONS' && /(^|,)\s*authorization\s*(,|$)/i.test(headers['access-control-request-headers'] ?? ''))

export function header(incoming: IncomingMessage, name: string): string | undefined {
  const value = incoming.headers[name]
  return Array.isArray(value) ? value.join(',') : value
}

/** The address of the client that sent a request (D56), uncut. */
export const addressOf = ({ clientAddress }: Pick<Core, 'clientAddress'>, incoming: IncomingMessage): string =>
  clientAddress.exact(incoming.socket.remoteAddress, header(incoming, 'x-forwarded-for'))

/**
 * The rate-limit counter of the caller's address; for a Function, its deployment stands in for the address. One counter serves
 * both caps; S3 and `/files` share a separate one. Chosen before any credential is looked at (A §8, D53, D55).
 */
function addressBudget({ deps, incoming, address, path, isS3 }: Arrival): { key: string; max: number } {
  const deploymentId = readDeploymentAddress(deps.deploymentAddressSigner, header(incoming, DEPLOYMENT_ADDRESS_HEADER))
  const counted = deploymentId === undefined ? networkOf(address) : `deployment:${deploymentId}`
  if (isS3 || isBelow(path, '/files')) return { key: `objects:${counted}`, max: ADDRESS_OBJECTS_MAX }
  return { key: `address:${counted}`, max: hasBearer(incoming) ? ADDRESS_WITH_BEARER_MAX : ADDRESS_MAX }
}

function actorOf(deps: Core, token: AccessToken): Actor {
  const { clientId, scopes, subject } = token
  const tokenExpiresAt = new Date(token.expiresAt * 1_000)
  if (token.issuer === deps.publicUrl) {
    const { actor, deployment_id: deploymentId, environment_id: environmentId } = token.claims
    const key = { keyId: clientId, applicationId: subject, scopes, tokenExpiresAt }
    if (actor === undefined) return { kind: 'key', ...key }
    // A Function's token that does not say what it is confined to grants nothing.
    if (actor !== 'function' || typeof deploymentId !== 'string' || typeof environmentId !== 'string')
      throw new InvalidToken('The token is not valid')
    return { kind: 'function', ...key, deploymentId, environmentId }
  }
  const authenticatedAt = token.authTime === undefined ? undefined : new Date(token.authTime * 1_000)
  return { kind: 'user', userId: subject, clientId, scopes, tokenExpiresAt, authenticatedAt }
}

/** How many accepted invitations to organizations of this API a token is looked at for. */
const JOINED_MAX = 20

/**
 * Makes the memberships that a user's token asks for by its claim `joined`: a list of `<issuer of the invitation>#<invitation id>`
 * (D112). The identity provider may trust other APIs, which admit nobody here: what is not of this one is ignored.
 */
async function redeem(deps: Core, actor: Actor, { joined }: AccessToken['claims']): Promise<void> {
  if (actor.kind !== 'user' || !Array.isArray(joined)) return
  const own = `${deps.publicUrl}#`
  const ids = joined
    .filter((entry) => typeof entry === 'string' && entry.startsWith(own))
    .map((entry: string) => entry.slice(own.length))
    .filter(isUuid)
    .slice(0, JOINED_MAX)
  await deps.redeemJoined(actor.userId, ids)
}

/** Counts a request that needs no credential. Throws Throttled. */
export async function throttleAddress(arrival: Arrival): Promise<void> {
  const address = addressBudget(arrival)
  const [count = 0] = await arrival.deps.limiter.hit([address.key])
  if (count > address.max) throw new Throttled()
}

/**
 * Address throttle → 401 → key throttle (D18). A token that was verified before is counted on both throttles in one step; an
 * unknown one is verified only after its address passes, so a flood of invalid tokens costs no signature checks. Invitations that
 * the token says were accepted are redeemed first, so that the first call already reaches the organization (D112).
 */
export async function authenticate(arrival: Arrival): Promise<Actor> {
  const { deps, incoming } = arrival
  const address = addressBudget(arrival)
  const raw = bearerOf(incoming)
  const known = raw === undefined ? undefined : deps.tokens.peek(raw)
  if (known) {
    const actor = actorOf(deps, known)
    const keys = actor.kind !== 'user' ? [address.key, `key:${actor.keyId}`] : [address.key]
    const [addressCount = 0, keyCount = 0] = await deps.limiter.hit(keys)
    if (addressCount > address.max || keyCount > KEY_MAX) throw new Throttled()
    if (known.claims.joined !== undefined) await redeem(deps, actor, known.claims)
    return (arrival.actor = actor)
  }
  const [addressCount = 0] = await deps.limiter.hit([address.key])
  if (addressCount > address.max) throw new Throttled()
  if (raw === undefined) throw new InvalidToken('A bearer access token is required')
  const token = await deps.tokens.verify(raw)
  const actor = actorOf(deps, token)
  if (actor.kind !== 'user') {
    const [keyCount = 0] = await deps.limiter.hit([`key:${actor.keyId}`])
    if (keyCount > KEY_MAX) throw new Throttled()
  }
  if (actor.kind === 'user') deps.learnProfile(actor.userId, raw, actor.scopes, arrival.trace)
  if (token.claims.joined !== undefined) await redeem(deps, actor, token.claims)
  return (arrival.actor = actor)
}

/** Maps a Postgres outage to a 503, whoever called (D22). */
export const asApiError = (error: unknown): unknown =>
  !(error instanceof ApiError) && isUnavailable(error) ? new Unavailable(undefined, error) : error

export const requestIdOf = (incoming: IncomingMessage): string => {
  const requestId = header(incoming, 'x-request-id')
  return requestId !== undefined && /^[\w.-]{1,128}$/.test(requestId) ? requestId : randomUUID()
}

/** Response headers that a page may read. */
const exposed =
  'ETag, Idempotency-Replayed, Retry-After, WWW-Authenticate, X-Request-Id, X-Service-Request-Id, X-Should-Retry'
const allowedMethods = 'GET, POST, PUT, PATCH, DELETE'
const allowedHeaders =
  'Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, Traceparent, Tracestate, X-Application-Id, X-End-User-Id, X-Organization-Id, X-Request-Id'
/** Headers that the `openai` package also sends from a browser. */
const sdkHeaders = [
  'OpenAI-Organization',
  'OpenAI-Project',
  ...[
    'Arch',
    'Custom-Poll-Interval',
    'Helper-Method',
    'Lang',
    'OS',
    'Package-Version',
    'Poll-Helper',
    'Retry-Count',
    'Runtime',
    'Runtime-Version',
    'Timeout',
  ].map((name) => `X-Stainless-${name}`),
].join(', ')

/** Lets a browser on a configured origin read the answer. We never use cookies, so credentials are not allowed either. */
export function corsHeaders({ deps, incoming }: Arrival, exposedHeaders = exposed): Record<string, string> {
  const { origin } = incoming.headers
  if (deps.corsOrigins.size === 0) return {}
  if (origin === undefined || !deps.corsOrigins.has(origin)) return { vary: 'Origin' }
  return { vary: 'Origin', 'access-control-allow-origin': origin, 'access-control-expose-headers': exposedHeaders }
}

/** Answers a CORS preflight, which carries no credential but counts (D12, D18). Returns undefined for any other request. */
export async function preflight(
  arrival: Arrival,
  allow = {
    methods: allowedMethods,
    headers: isAi(arrival.path) ? `${allowedHeaders}, ${sdkHeaders}` : allowedHeaders,
  },
): Promise<Reply | undefined> {
  if (!isPreflight(arrival.incoming)) return undefined
  await throttleAddress(arrival)
  return { status: 204, headers: preflightHeaders({ ...allow, maxAgeSeconds: 7_200 }), body: null }
}

const tooLate = () => new Unavailable('The request took too long; try again later')

/** No shorter path is changed for the log: it is cut to `/files/` and 36 characters; with its token an id's end takes 50, an invitation 54. */
const TOKEN_PATH_LENGTH_MIN = 44
/** The token that follows an upload's id in its URL. */
const UPLOAD_TOKEN = /(?<=[0-9a-f]{4}-[0-9a-f]{12})(?:\.|%2e)[\w-]{32}/gi
/** What follows the name of an invitation's link is its token. */
const INVITATION_TOKEN = /(?<=invitation(?:\/|%2f)).*$/is
/** A path from the word on, however it is garbled, and what may be a token in there; the id of an invitation has 36 characters. */
const AFTER_INVITATION = /(?<=invitation).*$/is
const LIKE_A_TOKEN = /[\w-]{40,}/g
/** The longest path that is logged. */
const LOGGED_PATH_LENGTH_MAX = 512

/**
 * A path for the log, without the tokens of uploads and invitations: a token alone grants access. It is removed anywhere in the path,
 * since a proxy or client that garbles the URL sends the token on a path that matches nothing.
 */
function loggedPath(path: string): string {
  if (path.length < TOKEN_PATH_LENGTH_MIN) return path
  return path
    .replace(/^\/files\/(?!deployments\/)(.{0,36}).*$/s, '/files/$1')
    .replaceAll(UPLOAD_TOKEN, '')
    .replace(INVITATION_TOKEN, '')
    .replace(AFTER_INVITATION, (rest) => rest.replaceAll(LIKE_A_TOKEN, ''))
    .slice(0, LOGGED_PATH_LENGTH_MAX)
}

/** The caller, for the log. */
const loggedActor = (actor: Actor | undefined) =>
  actor && {
    actor: actor.kind === 'user' ? actor.userId : actor.keyId,
    ...(actor.kind !== 'user' && { applicationId: actor.applicationId }),
    organizationId: actor.organizationId,
  }

/** Counts and logs a request once it is answered. */
export function record(
  { deps, actor, requestId, trace, incoming, address, path }: Arrival,
  operation: string,
  status: number,
  startedAt: number,
  failure: unknown,
): void {
  deps.recordRequest({
    operation,
    requestId,
    traceId: trace?.traceId,
    method: incoming.method,
    status,
    startedAt,
    failure,
    details: {
      path: loggedPath(path),
      address,
      ...loggedActor(actor),
    },
  })
}

/** The headers of every answer, whichever listener sends it. */
export const commonHeaders = (arrival: Arrival): Record<string, string> => ({
  ...corsHeaders(arrival),
  'x-content-type-options': 'nosniff',
  'x-request-id': arrival.requestId,
  ...(isAi(arrival.path) && { 'x-service-request-id': arrival.requestId }),
})

/**
 * Wraps a route's work into a whole exchange: request id, deadline, errors in the format of the path, CORS, log and metrics.
 * Headers are merged once, into one plain object.
 *
 * deadlineMs: null if the work has deadlines of its own.
 */
export function exchange<Deps extends Core>(
  deps: Deps,
  operation: string,
  work: (exchange: Exchange<Deps>) => Promise<Reply | Sent>,
  deadlineMs: number | null,
): (c: HonoContext) => Promise<Response> {
  const answer = async (current: Exchange<Deps>): Promise<Reply | Sent> => (await preflight(current)) ?? work(current)
  return async (c) => {
    const startedAt = performance.now()
    const { incoming, outgoing } = c.env
    const trace = readTrace(header(incoming, 'traceparent'), header(incoming, 'tracestate'))
    const path = pathOf(incoming.url)
    const requestId = isAi(path) ? newIdAt(deps.now()) : requestIdOf(incoming)
    const address = addressOf(deps, incoming)
    const current: Exchange<Deps> = { deps, c, incoming, address, path, isS3: false, requestId, trace }
    let failure: unknown
    let reply: Reply
    try {
      const answered = await (deadlineMs === null
        ? answer(current)
        : withDeadline(deadlineMs, tooLate, answer(current)))
      if ('sent' in answered) {
        record(current, operation, answered.sent, startedAt, answered.failure)
        return RESPONSE_ALREADY_SENT
      }
      reply = answered
    } catch (error) {
      failure = error
      reply = renderError(shapeOf(current), asApiError(error), { path, requestId })
    }
    record(current, operation, reply.status, startedAt, failure)
    // HEAD gets GET's answer without its body; an unread stream would stay open.
    if (incoming.method === 'HEAD' && reply.body instanceof ReadableStream) {
      await reply.body.cancel()
      reply = { ...reply, body: null }
    }
    const headers = { ...commonHeaders(current), ...reply.headers }
    dismiss(incoming, outgoing)
    return new Response(reply.body as ConstructorParameters<typeof Response>[0], { status: reply.status, headers })
  }
}
