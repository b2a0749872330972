import type { Operation } from './operations.ts'
import type { Reference } from './recipes.ts'

/** The row of an operation in a table: the first that matches `METHOD /path`. */
type Table<T> = readonly (readonly [RegExp, T])[]

const rowOf = <T>(table: Table<T>, { method, path }: Operation): T | undefined =>
  table.find(([pattern]) => pattern.test(`${method} ${path}`))?.[1]

/** wire.md, Scopes: any one of them will do. Written out once more, so that a wrong guard is not its own measure. */
const scopes: Table<readonly string[]> = [
  [/^GET .*\/env-vars/, ['network:env_vars:read']],
  [/^(POST|PATCH) .*\/env-vars/, ['network:env_vars:write']],
  [/^DELETE .*\/env-vars/, ['network:env_vars:delete']],
  [/\/ai-gateway\/(provider-keys|policies)/, ['network:ai_gateway:policies']],
  [/\/ai-gateway\/budgets/, ['network:ai_gateway:budgets']],
  [/\/ai-gateway\/usage/, ['network:ai_gateway:usage']],
  [/^GET \/ai\/v1\/(videos\/)?models/, ['network:ai_gateway:models']],
  [/\/ai\/v1\//, ['network:ai_gateway:chat']],
  [/^GET \/organizations\/\{id\}\/overview$/, ['network:applications:read']],
  [/^GET .*\/invitations$/, ['platform:members:read']],
  [/\/invitations/, ['platform:members:write']],
  [/^DELETE \/memberships\//, ['platform:members:write']],
  [/^GET \/organizations/, ['platform:organizations:read']],
  [/^POST \/organizations$/, ['platform:organizations:write']],
  [/^GET .*\/environments\//, ['network:storage:read']],
  [/^POST .*\/environments\//, ['network:storage:write']],
  [/^DELETE .*\/environments\//, ['network:storage:delete']],
  [/^GET \/deployments/, ['network:deployments:read']],
  [/^POST \/deployments/, ['network:deployments:trigger']],
  [/^DELETE \/deployments\/\{id\}\/image-cache$/, ['network:deployments:write']],
  [/^GET .*\/runtime-logs/, ['network:deployments:read']],
  [/^GET \/applications/, ['network:applications:read']],
  [/^(POST|PUT) \/applications/, ['network:applications:write']],
  [/^POST \/sticky-sessions\/urls$/, ['network:sticky_sessions:write']],
  [/^POST \/api-keys$/, ['platform:api_keys:write']],
  [/^GET \/api-keys$/, ['platform:api_keys:read', 'platform:api_keys:write']],
  [/^DELETE \/api-keys/, ['platform:api_keys:delete', 'platform:api_keys:write']],
]

/** A §4: an API key never founds an organization and never manages keys; D112: nor members. Sticky URLs are minted by Functions. */
const onlyFor: Table<'user' | 'function'> = [
  [/^POST \/organizations$/, 'user'],
  [/\/(invitations|memberships)/, 'user'],
  [/\/api-keys/, 'user'],
  [/\/ai-gateway\/provider-keys/, 'user'],
  [/^(PUT|DELETE) .*\/ai-gateway\/(policies|budgets)/, 'user'],
  [/^POST \/sticky-sessions\/urls$/, 'function'],
]
const tokenOf = { user: 'a user-backed token', function: 'a token of a Function' }

/** D121: what an API key reads of the organization that its application stands in; elsewhere no path of an organization is a key's. */
const partsForKeys: Table<true> = [[/^GET .*\/ai-gateway\/(policies|budgets|usage)/, true]]

/** wire.md, roles: what a MEMBER may not. */
const notForMembers: Table<true> = [
  [/^(POST|PATCH|DELETE) \/organizations\/\{id\}\/env-vars/, true],
  [/^(POST|DELETE) \/api-keys/, true],
  // But for one's own membership, which no request of these suites names.
  [/\/(invitations|memberships)/, true],
  [/^PUT \/applications\/\{id\}\/hostname$/, true],
  [/\/provider-keys/, true],
  [/^(PUT|DELETE) .*\/ai-gateway\/(policies|budgets)/, true],
]

/** The scopes of which a token needs one. Throws with a sentence on what to add. */
export function scopesFor(operation: Operation): readonly string[] {
  const rows = rowOf(scopes, operation)
  if (rows) return rows
  throw new Error(
    `${operation.operationId} (${operation.method} ${operation.path}) has no scope in test/access-rules.ts: add its row of wire.md to \`scopes\`; see also \`onlyFor\` and \`notForMembers\``,
  )
}

/** Whose token it must be, where not everybody's will do (A §4). */
export const actorKindOf = (operation: Operation): 'user' | 'function' | undefined => rowOf(onlyFor, operation)

/** D70: `:write` stands for the `:read` of the same resource. */
export const satisfying = (needed: readonly string[]): string[] =>
  needed.flatMap((scope) => (scope.endsWith(':read') ? [scope, scope.replace(/:read$/, ':write')] : [scope]))

/** Whose something is; `nobody`: it does not exist; `malformed`: nor could it. */
export type Whose = 'ana' | "ana's other" | 'ben' | 'nobody' | 'malformed'

/** Who asks, as far as the rules look. */
export type Asker =
  /** No token, or one that is none. */
  | { kind: 'unknown' }
  | { kind: 'user'; scopes: readonly string[]; roles: Partial<Record<Whose, 'OWNER' | 'ADMIN' | 'MEMBER'>> }
  /** of: whose application it is bound to; organization: whose that stands in. */
  | { kind: 'key'; scopes: readonly string[]; of: Whose; organization: Whose }
  /** Every environment that a request of this suite names is a production. */
  | {
      kind: 'function'
      scopes: readonly string[]
      of: Whose
      organization: Whose
      environment: 'production' | 'preview'
    }

export type Expected = 'done' | { status: 401 | 422 } | { status: 403 | 404; error: string }

const missing = (title: string): Expected => ({ status: 404, error: `${title} not found` })
const denied: Expected = { status: 403, error: 'Access denied' }

/** D17, for the organization or application that a request names, or a thing that it names without its parent. */
function reach(operation: Operation, asker: Asker, { thing, on }: Reference, whose: Whose): Expected {
  if (whose === 'nobody' || whose === 'malformed' || asker.kind === 'unknown') return missing(thing.title)
  if (asker.kind === 'user') {
    const role = asker.roles[whose]
    if (!role) return missing(thing.title)
    if (role === 'MEMBER' && rowOf(notForMembers, operation))
      return { status: 403, error: 'Your role in this organization does not allow this' }
    return 'done'
  }
  switch (thing.rank) {
    case 'application':
      return asker.of === whose ? 'done' : denied
    case 'organization':
      // wire.md, roles: no path of an organization is a key's, not even of its own; as a filter it is in reach.
      if (asker.organization !== whose) return denied
      return (operation.method === 'GET' && on === 'query') || rowOf(partsForKeys, operation) ? 'done' : denied
    case 'child':
      return asker.of === whose ? 'done' : missing(thing.title)
  }
}

/** Whose organization each application stands in: Ana's other is a second one in her first organization. */
const organizationOf: Partial<Record<Whose, Whose>> = { ana: 'ana', "ana's other": 'ana', ben: 'ben' }

/** D78: where a call of the AI gateway belongs, by its headers, and what it names below that. */
function reachCall(asker: Asker, named: readonly { reference: Reference; whose: Whose }[]): Expected {
  const whoseIs = (title: string) => named.find(({ reference }) => reference.thing.title === title)?.whose
  const [organization, application] = [whoseIs('Organization'), whoseIs('Application')]
  if (asker.kind === 'unknown' || organization === undefined || application === undefined) return 'done'
  if (asker.kind === 'user') {
    if (!asker.roles[organization]) return missing('Organization')
    if (organizationOf[application] !== organization) return missing('Application')
  } else {
    if (organization !== asker.organization) return organization === 'nobody' ? missing('Organization') : denied
    if (application !== asker.of) return application === 'nobody' ? missing('Application') : denied
  }
  const video = whoseIs('Video')
  if (video !== undefined && video !== application) return missing('Video')
  const model = whoseIs('Model')
  return model === 'nobody' || model === 'malformed' ? missing('Model') : 'done'
}

const isOfPreview = (asker: Asker): boolean => asker.kind === 'function' && asker.environment === 'preview'

/** The answer that D16 to D18 and wire.md's tables give, for a request that is right but for who asks and what it names. */
export function expectedAnswer(
  operation: Operation,
  asker: Asker,
  named: readonly { reference: Reference; whose: Whose }[],
): Expected {
  if (asker.kind === 'unknown') return { status: 401 }
  const kind = actorKindOf(operation)
  if (kind !== undefined && asker.kind !== kind) return { status: 403, error: `This operation needs ${tokenOf[kind]}` }
  const needed = scopesFor(operation)
  if (!satisfying(needed).some((scope) => asker.scopes.includes(scope)))
    return { status: 403, error: `The token lacks the scope ${needed.join(' or ')}` }
  const malformed = named.filter(({ reference, whose }) => reference.isUuid && whose === 'malformed')
  for (const { reference } of malformed) if (reference.on === 'path') return missing(reference.thing.title)
  if (malformed.length > 0) return { status: 422 }

  if (named.some(({ reference }) => reference.on === 'header')) return reachCall(asker, named)
  const [first, ...below] = named
  if (!first) return 'done'
  const reached = reach(operation, asker, first.reference, first.whose)
  if (reached !== 'done') return reached
  for (const { reference, whose } of below) {
    if (asker.kind !== 'user' && reference.thing.rank === 'application') {
      const reachedBelow = reach(operation, asker, reference, whose)
      if (reachedBelow !== 'done') return reachedBelow
      continue
    }
    // D9: another environment is denied to a Function, there or not.
    const isOther = reference.thing.title === 'Environment' && (whose !== first.whose || isOfPreview(asker))
    if (asker.kind === 'function' && isOther) return denied
    const isBelow =
      reference.thing.title === 'Application' ? organizationOf[whose] === first.whose : whose === first.whose
    const isThere = reference.thing.isShared ? whose !== 'nobody' && whose !== 'malformed' : isBelow
    if (!isThere) return missing(reference.thing.title)
  }
  return 'done'
}
