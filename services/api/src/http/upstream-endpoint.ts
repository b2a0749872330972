import { createRoute, z } from '@hono/zod-openapi'
import type { ApiScope } from '@platform/auth/scopes'
import type { Actor } from './actor.ts'
import type { Core } from '../core.ts'
import { admit, type Endpoint, type Method, readParams } from './endpoint.ts'
import { failureResponses, headersBelow } from './error-schemas.ts'
import type { Exchange, Reply, Sent } from './exchange.ts'
import type { PathParam } from './fields.ts'

/** Schemas by media type, for the document only; requests and answers are not parsed by them. */
type Content = Readonly<Record<string, { schema: z.ZodType; example?: unknown }>>

/** An operation whose answer comes from elsewhere, byte for byte. */
export interface UpstreamSpec<Deps extends Core, P extends Record<string, PathParam>> {
  operation: string
  on: `${Method} /${string}`
  spec: string
  tag: string
  summary: string
  description: string
  scope: ApiScope
  params?: P
  /** Request headers that the operation reads. */
  headers: z.ZodObject
  body?: Content
  returns: { status: 200 | 202; content: Content; headers?: ReturnType<typeof headersBelow> }
  /** Statuses beyond 401, 403, 429, 500, 503 and, with a body, 408. */
  fails: readonly (400 | 404 | 409 | 413 | 422)[]
  /** Reads the request and answers it, either on the raw response or by returning a reply. */
  answer: (call: {
    exchange: Exchange<Deps>
    actor: Actor
    params: { [name in keyof P]: string }
  }) => Promise<Reply | Sent>
}

/**
 * Declares an operation whose request and answer pass through. It is documented and guarded like `endpoint`, in the same order,
 * but has deadlines of its own. `scope` is required, so an operation without a guard does not compile.
 */
export function upstreamEndpoint<Deps extends Core, P extends Record<string, PathParam> = Record<string, never>>(
  spec: UpstreamSpec<Deps, P>,
): Endpoint<Deps> {
  const [method, path] = spec.on.split(' ') as [Method, string]
  const params = Object.entries(spec.params ?? {})
  const { status, content, headers } = spec.returns
  const route = createRoute({
    method: method.toLowerCase() as Lowercase<Method>,
    path,
    operationId: spec.operation,
    tags: [spec.tag],
    summary: spec.summary,
    description: `${spec.description}\n\nNeeds a token with the scope \`${spec.scope}\`.`,
    'x-source': spec.spec,
    security: [{ bearer: [] }, { oauth2: [spec.scope] }],
    request: {
      ...(spec.params && { params: z.object(Object.fromEntries(params.map(([name, { schema }]) => [name, schema]))) }),
      headers: spec.headers,
      ...(spec.body && { body: { required: true, content: spec.body } }),
    },
    responses: {
      [status]: {
        description: status === 202 ? 'Accepted' : 'OK',
        headers: { ...headersBelow(path), ...headers },
        content,
      },
      ...failureResponses([401, 403, 429, 500, 503, ...(spec.body ? [408] : []), ...spec.fails], path),
    },
  })
  return {
    operation: spec.operation,
    method,
    path,
    aliases: [],
    route,
    guard: { actor: 'any', scope: [spec.scope] },
    isListed: true,
    deadlineMs: null,
    async run(exchange) {
      const actor = await admit(exchange, 'any', [spec.scope])
      return spec.answer({
        exchange,
        actor,
        params: readParams(exchange, params) as { [name in keyof P]: string },
      })
    },
  }
}
