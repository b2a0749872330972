import type { IncomingMessage } from 'node:http'
import { createRoute, type RouteConfig, z } from '@hono/zod-openapi'
import type { ApiScope } from '@platform/auth/scopes'
import { Forbidden, NotFound } from '@platform/errors/api-error'
import { type Actor, type FunctionActor, grants, type UserActor } from './actor.ts'
import type { Core } from '../core.ts'
import { answerWithEtag } from './conditional.ts'
import { failureResponses, headersBelow } from './error-schemas.ts'
import { authenticate, commonHeaders, DEADLINE_MS, type Exchange, type Reply, type Sent } from './exchange.ts'
import type { PathParam } from './fields.ts'
import { createOnce, readIdempotencyKey } from './idempotency.ts'
import { readJson } from './read-body.ts'
import { sendContent } from './send-content.ts'
import { parseInput, requireGivenOnce } from './validate.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
export type Schema = z.ZodType | undefined
type Out<S> = S extends z.ZodType ? z.output<S> : undefined
/** Which kinds of actor may call an operation. */
export type ActorKind = 'user' | 'function' | 'any'
type ActorFor<A> = A extends 'user' ? UserActor : A extends 'function' ? FunctionActor : Actor

/** The parsed input of `reach` and `handle`; no HTTP in it. */
interface Call<Deps, A, P, Q, B, H> {
  deps: Deps
  actor: ActorFor<A>
  params: { [name in keyof P]: string }
  query: Out<Q>
  body: Out<B>
  headers: Out<H>
}

/** One operation of the API: its shape on the wire, who may call it, what it reaches, what it does. */
export interface Spec<
  Deps extends Core,
  A extends ActorKind,
  P extends Record<string, PathParam>,
  Q extends Schema,
  B extends Schema,
  H extends Schema,
  R extends Schema,
  T,
> {
  /** operationId of the OpenAPI document. */
  operation: string
  /** 'METHOD /path', as in the specification's tables. */
  on: `${Method} /${string}`
  /** Aliases that answer the same way; the document lists only the path above. */
  also?: readonly `/${string}`[]
  /** Section of the specification. */
  spec: string
  tag: string
  summary: string
  /** What a caller cannot tell from the shapes: order, defaults, permissions, effects. For people; Markdown. */
  description: string
  /** 'user': requires a user-backed token. 'function': requires a Function's token. */
  actor: A
  /** The required scope, or several of which one suffices. `:write` implies the `:read` of the same resource (D70). */
  scope: ApiScope | readonly ApiScope[]
  params?: P
  query?: Q
  body?: B
  /** Maximum size of the body in bytes; 512 KiB by default. */
  bodyBytesMax?: number
  /** Request headers that this operation reads, spelled as on the wire. */
  headers?: H
  /** Finds what the call acts on and decides whether this actor may use it. Throws NotFound or Forbidden (D17). */
  reach: (call: Call<Deps, A, P, Q, B, H>) => Promise<T>
  /** 201 marks a creation, which accepts an Idempotency-Key. */
  returns: readonly [200 | 201, R] | readonly [204]
  /** True if the answer holds a secret that is never shown again, so repeating a creation is refused (D79). */
  isShownOnce?: true
  /** Statuses beyond those implied by the rest of this declaration. */
  fails?: readonly (400 | 404 | 409 | 402)[]
  /** Response headers that depend on the target. */
  headersFor?: (target: T) => Record<string, string>
  handle: (call: Call<Deps, A, P, Q, B, H> & { target: T }) => Result<R> | Promise<Result<R>>
}
type Result<R extends Schema> = R extends z.ZodType ? z.input<ReturnShape<R>> : void
/** Handlers return the schema's decoded side: dates are Dates. */
type ReturnShape<R extends z.ZodType> = z.ZodType<z.input<R>, z.output<R>>

/** An operation as the document lists it. */
export interface Operation {
  readonly operation: string
  readonly method: Method
  /** As in the OpenAPI document: `/organizations/{id}`. */
  readonly path: string
  /** Further paths of the same operation. */
  readonly aliases: readonly string[]
  readonly route: RouteConfig
  /** undefined: no credential needed. */
  readonly guard: { actor: ActorKind; scope: readonly ApiScope[] } | undefined
  /** False for routes that are not part of the API. */
  readonly isListed: boolean
  /** How long `run` may take; null if it has deadlines of its own. */
  readonly deadlineMs: number | null
}

/** An operation with what answers it, on the deps of its area. */
export interface Endpoint<Deps extends Core> extends Operation {
  readonly run: (exchange: Exchange<Deps>) => Promise<Reply | Sent>
}

const idempotencyKey = z.string().optional().openapi({
  description: 'Repeats of the same request with this key get the first response, for 24 hours.',
  example: '0b6f0a52-6f5e-4b0e-9a51-4a2f8a0c6e11',
})
const notModified = { description: 'Not modified: If-None-Match has the current ETag' }
const eventStreamType = 'text/event-stream'
/** The bytes of a stream of server-sent events; passed on unchanged. */
export const eventStream = z
  .custom<ReadableStream<Uint8Array>>((value) => value instanceof ReadableStream)
  .openapi({ type: 'string', description: 'Server-sent events. Comments keep the connection open.' })
/**
 * The same for a stream that ends: undefined, answered with 204, once nothing is left to send, so that clients stop reconnecting.
 */
export const endingEventStream = z
  .custom<ReadableStream<Uint8Array> | undefined>((value) => value === undefined || value instanceof ReadableStream)
  .openapi({ type: 'string', description: 'Server-sent events. Comments keep the connection open.' })
/**
 * The bytes of a CSV export, produced as fast as the client reads them and with no deadline. A failure before the first byte is
 * answered with its status; a later one cuts the connection.
 */
export const csvFile = z
  .custom<AsyncIterable<Buffer>>(
    (value) => typeof value === 'object' && value !== null && Symbol.asyncIterator in value,
  )
  .openapi({
    type: 'string',
    description: 'CSV (RFC 4180) with a header line.',
    example: 'id\r\n',
  })
const csvType = 'text/csv'
const csvHeaders = { 'content-type': 'text/csv; charset=utf-8', 'cache-control': 'no-store' }
const streamHeaders = {
  'content-type': eventStreamType,
  'cache-control': 'no-store',
  // For nginx and similar proxies: an event held in a buffer arrives too late.
  'x-accel-buffering': 'no',
  // Makes clients reconnect on a new connection: the old one would lead back to a process that is stopping.
  connection: 'close',
}

/** Reads the named request headers. Throws ValidationFailed (422) if one does not match the schema. */
export function readHeaders<S extends z.ZodType>(schema: S, incoming: IncomingMessage): z.output<S> {
  const names = Object.keys((schema as unknown as z.ZodObject).shape)
  return parseInput(
    schema,
    Object.fromEntries(names.map((name) => [name, incoming.headers[name.toLowerCase()]])),
    'headers',
  )
}

/** Reads a query. Throws ValidationFailed (422) if a parameter of the schema is given more than once. */
function readQuery(schema: z.ZodType, { c: { req } }: Exchange): Record<string, string> {
  requireGivenOnce(Object.keys((schema as unknown as z.ZodObject).shape), (name) => req.queries(name) ?? [])
  return req.query()
}

const jsonHeaders = { 'content-type': 'application/json; charset=UTF-8' }

/** The token that an operation requires, in words. */
const tokenOf: Record<ActorKind, string> = {
  user: 'a user-backed token',
  function: 'a token of a Function',
  any: 'a token',
}

/** Step three of D18: checks the kind of actor, then the scope, before anything is looked up. Throws Forbidden. */
function requireActor(actor: Actor, kind: ActorKind, scopes: readonly ApiScope[]): void {
  if (kind !== 'any' && actor.kind !== kind) throw new Forbidden(`This operation needs ${tokenOf[kind]}`)
  if (scopes.some((scope) => grants(actor.scopes, scope))) return
  throw new Forbidden(`The token lacks the scope ${scopes.join(' or ')}`, 'insufficient_scope')
}

/** Returns the caller after the address throttle, token, key throttle, kind of actor and scope have been checked (D18). */
export async function admit(exchange: Exchange, kind: ActorKind, scopes: readonly ApiScope[]): Promise<Actor> {
  const actor = await authenticate(exchange)
  requireActor(actor, kind, scopes)
  return actor
}

/** Parameters of the matched path; an alias may have more or fewer than the documented path. */
export function readParams(exchange: Exchange, params: readonly [name: string, PathParam][]): Record<string, string> {
  const read: Record<string, string> = {}
  for (const [name, { schema, resource, orQuery }] of params) {
    const { req } = exchange.c
    const inPath = req.param(name)
    if (inPath === undefined && orQuery !== undefined) requireGivenOnce([orQuery], (each) => req.queries(each) ?? [])
    const value = inPath ?? (orQuery === undefined ? undefined : req.query(orQuery))
    if (value === undefined) continue
    const parsed = schema.safeParse(value)
    if (!parsed.success) throw new NotFound(resource)
    read[name] = parsed.data
  }
  return read
}

/** Answers with a file that is produced while it is sent. Rejects only if nothing has been sent. */
async function sendFile(
  { c, deps, requestId }: Exchange,
  operation: string,
  headers: Record<string, string>,
  content: AsyncIterable<Buffer>,
): Promise<Sent> {
  const { outgoing } = c.env
  try {
    await sendContent(outgoing, { status: 200, headers }, content)
  } catch (failure) {
    if (!outgoing.headersSent) throw failure
    // The request's log line says 200, so only this one explains why the file is incomplete.
    const hasLeft = outgoing.destroyed || outgoing.req.socket.destroyed
    if (!hasLeft) deps.logger.error({ err: failure, operation, requestId }, 'an answer broke off')
    outgoing.destroy()
  }
  return { sent: 200 }
}

/**
 * Declares an operation. A request passes these steps, in this order (D18): address throttle, token, key throttle, kind of actor
 * and scope, path, body, query, `reach`, `handle`. `scope` and `reach` are required, so an operation without a guard does not
 * compile. The response is encoded by its schema: undeclared members are never sent.
 */
export function endpoint<
  Deps extends Core,
  const A extends ActorKind,
  T,
  P extends Record<string, PathParam> = Record<string, never>,
  Q extends Schema = undefined,
  B extends Schema = undefined,
  H extends Schema = undefined,
  R extends Schema = undefined,
>(spec: Spec<Deps, A, P, Q, B, H, R, T>): Endpoint<Deps> {
  const [method, path] = spec.on.split(' ') as [Method, string]
  const scopes = [spec.scope].flat() as readonly ApiScope[]
  const params = Object.entries(spec.params ?? {})
  const [status, schema] = spec.returns
  const isCreation = status === 201
  const isEnding = (schema as unknown) === endingEventStream
  const isCsv = (schema as unknown) === csvFile
  const isStream = isEnding || (schema as unknown) === eventStream

  const fails = new Set([401, 403, 429, 500, 503, ...(spec.fails ?? [])])
  if (spec.params || spec.query) fails.add(404)
  if (spec.query || spec.body || spec.headers) fails.add(422)
  if (spec.body) for (const more of [400, 413]) fails.add(more)
  if (isCreation) fails.add(409)

  const route = createRoute({
    method: method.toLowerCase() as Lowercase<Method>,
    path,
    operationId: spec.operation,
    tags: [spec.tag],
    summary: spec.summary,
    description: `${spec.description}\n\nNeeds ${tokenOf[spec.actor]} with the scope \`${scopes.join('` or `')}\`.`,
    'x-source': spec.spec,
    security: [{ bearer: [] }, ...scopes.map((scope): Record<string, string[]> => ({ oauth2: [scope] }))],
    request: {
      ...(spec.params && {
        params: z.object(
          Object.fromEntries(
            params.filter(([name]) => path.includes(`{${name}}`)).map(([name, { schema }]) => [name, schema]),
          ),
        ),
      }),
      ...(spec.query && { query: spec.query as never }),
      ...(spec.headers && { headers: spec.headers as never }),
      ...(isCreation && { headers: z.object({ 'Idempotency-Key': idempotencyKey }) }),
      ...(spec.body && { body: { required: true, content: { 'application/json': { schema: spec.body } } } }),
    },
    responses: {
      [status]: schema
        ? {
            description: status === 201 ? 'Created' : 'OK',
            ...(path.startsWith('/ai/v1/') && { headers: headersBelow(path) }),
            content: { [isCsv ? csvType : isStream ? eventStreamType : 'application/json']: { schema } },
          }
        : { description: 'No content' },
      ...(isEnding && { 204: { description: 'Nothing is left to send' } }),
      ...(method === 'GET' && !isStream && !isCsv && { 304: notModified }),
      ...failureResponses([...fails], path),
    },
  })

  return {
    operation: spec.operation,
    method,
    path,
    aliases: spec.also ?? [],
    route,
    guard: { actor: spec.actor, scope: scopes },
    isListed: true,
    deadlineMs: isCsv ? null : DEADLINE_MS,
    async run(exchange) {
      const actor = await admit(exchange, spec.actor, scopes)
      const call = {
        deps: exchange.deps,
        actor,
        params: readParams(exchange, params),
        body: spec.body && parseInput(spec.body, await readJson(exchange.incoming, spec.bodyBytesMax), 'body'),
        query: spec.query && parseInput(spec.query, readQuery(spec.query, exchange), 'query'),
        headers: spec.headers && readHeaders(spec.headers, exchange.incoming),
      } as Call<Deps, A, P, Q, B, H>
      const key = isCreation ? readIdempotencyKey(exchange.incoming.headers['idempotency-key'] as string) : undefined
      const target = await spec.reach(call)
      const more = spec.headersFor?.(target) ?? {}
      if (isCsv) {
        const headers = { ...csvHeaders, ...more }
        // Hono builds a new response for HEAD, so anything we had already written would be sent twice.
        if (exchange.incoming.method === 'HEAD') return { status, headers, body: null }
        const content = (await spec.handle({ ...call, target })) as unknown as AsyncIterable<Buffer>
        return sendFile(exchange, spec.operation, { ...commonHeaders(exchange), ...headers }, content)
      }
      if (isStream) {
        const stream = await spec.handle({ ...call, target })
        if (stream === undefined) return { status: 204, headers: {}, body: null }
        return { status, headers: streamHeaders, body: stream as ReadableStream<Uint8Array> }
      }
      const answer = async (deps: Deps): Promise<string> => {
        const result: unknown = await spec.handle({ ...call, deps, target })
        return schema ? JSON.stringify(z.encode(schema, result)) : ''
      }
      if (key !== undefined) {
        // On an alias the query may carry what the canonical path does, so it is part of the fingerprint.
        const named = spec.also && { params: call.params }
        const requestContent = { path: exchange.path, ...named, body: call.body }
        const request = {
          actor,
          operation: spec.operation,
          key,
          asked: requestContent,
          isAnswerKept: !spec.isShownOnce,
        }
        const once = await createOnce(exchange.deps, request, (db) => answer({ ...exchange.deps, db }))
        const replayed = once.isRepeat ? { 'idempotency-replayed': 'true' } : {}
        return { status, headers: { ...jsonHeaders, ...more, ...replayed }, body: once.answer }
      }
      const body = await answer(exchange.deps)
      if (!schema) return { status, headers: more, body: null }
      const headers = { ...jsonHeaders, ...more }
      return method === 'GET' ? answerWithEtag(exchange.incoming, headers, body) : { status, headers, body }
    },
  }
}

/** An operation that needs no credential. */
export interface OpenSpec<Deps extends Core> {
  operation: string
  on: `${Method} /${string}`
  /** Further paths of the same operation. */
  also?: readonly `/${string}`[]
  tag: string
  summary: string
  description: string
  /** True for routes that are not part of the API, such as the files of a page. */
  hide?: boolean
  request?: RouteConfig['request']
  responses: RouteConfig['responses']
  /** Statuses beyond 429 and 500. */
  fails?: readonly number[]
  /** Builds the whole answer, and must call `throttleAddress` first. */
  run: (exchange: Exchange<Deps>) => Promise<Reply>
}

/** Declares an operation that needs no credential (A §5): the token endpoint and the documents below /.well-known and /docs. */
export function openEndpoint<Deps extends Core>(spec: OpenSpec<Deps>): Endpoint<Deps> {
  const [method, path] = spec.on.split(' ') as [Method, string]
  const route = createRoute({
    method: method.toLowerCase() as Lowercase<Method>,
    path,
    operationId: spec.operation,
    tags: [spec.tag],
    summary: spec.summary,
    description: spec.description,
    security: [],
    ...(spec.request && { request: spec.request }),
    responses: { ...spec.responses, ...failureResponses([429, 500, ...(spec.fails ?? [])], path) },
  })
  const { operation, also: aliases = [], run } = spec
  const isListed = !spec.hide
  return { operation, method, path, aliases, route, guard: undefined, isListed, deadlineMs: DEADLINE_MS, run }
}
