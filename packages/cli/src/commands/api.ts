import * as sdk from '@platform/sdk'
import type { Context } from '../context.ts'
import { type Outcome, refuse } from '../outcome.ts'
import { applicationOfKey, reachOrganization } from '../places.ts'
import { findProject } from '../project.ts'
import { readStdin } from '../stdin.ts'
import { nearest } from '../values.ts'

interface ApiOptions {
  method: string
  path: string
  body?: string | undefined
  paginate: boolean
  org?: string | undefined
}

type AnyOperation = sdk.Operation<object, unknown>
type AnyCall = (platform: sdk.Platform, params: object, options: object) => Promise<unknown>
type AnyList = sdk.Operation<object, { items: unknown[] }>

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']

/** Every operation of the API. */
const operations: readonly AnyOperation[] = (Object.values(sdk) as unknown[]).filter(
  (each): each is AnyOperation => typeof each === 'function' && 'spec' in each,
)

/** The members of a path that matches a template; undefined if it does not. */
function match(template: string, path: string): Record<string, string> | undefined {
  const names = [...template.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
  const pattern = template.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{\w+\}/g, '([^/]+)')
  const found = new RegExp(`^${pattern}$`).exec(path)
  if (!found) return undefined
  try {
    return Object.fromEntries(names.map((name, index) => [name, decodeURIComponent(found[index + 1] ?? '')]))
  } catch {
    return refuse(`${path} has a "%" that begins no character`)
  }
}

/** Finds the operation of a method and a path. A path without members comes before one with. */
function findOperation(method: string, path: string): { operation: AnyOperation; params: Record<string, string> } {
  const found = operations
    .filter(({ spec }) => spec.method === method)
    .flatMap((operation) => {
      const params = match(operation.spec.path, path)
      return params ? [{ operation, params }] : []
    })
  const best = found.toSorted((a, b) => Object.keys(a.params).length - Object.keys(b.params).length)[0]
  if (best) return best
  const others = operations.filter(({ spec }) => match(spec.path, path)).map(({ spec }) => spec.method)
  if (others.length > 0) refuse(`${path} takes no ${method}: expected ${others.join(' or ')}`)
  const meant = nearest(
    path,
    operations.filter(({ spec }) => spec.method === method).map(({ spec }) => spec.path),
  )
  return refuse(`The API has no ${path}${meant === undefined ? '' : ` (Did you mean ${meant}?)`}`)
}

async function bodyOf(context: Context, flag: string | undefined): Promise<unknown> {
  if (flag === undefined) return undefined
  const text = flag === '-' ? (await readStdin(context)).toString() : flag
  try {
    return JSON.parse(text) as unknown
  } catch {
    return refuse('--body is not JSON')
  }
}

/** Calls an operation as the SDK does, with its repetitions. */
export async function api(
  context: Context,
  { method: word, path: address, body: text, paginate, org }: ApiOptions,
): Promise<Outcome> {
  const method = word.toUpperCase()
  if (!METHODS.includes(method)) refuse(`"${word}" is not a method: expected ${METHODS.join(', ')}`)
  if (!address.startsWith('/') || address.startsWith('//'))
    refuse(`"${address}" is not a path: expected one such as /applications`)
  const url = new URL(address, 'http://platform.invalid')
  const { operation, params } = findOperation(method, url.pathname)
  const query: Record<string, string> = {}
  for (const [name, value] of url.searchParams) {
    const { query: names } = operation.spec
    if (!names.includes(name)) {
      const meant = nearest(name, names)
      refuse(`${operation.spec.path} takes no "${name}"${meant ? ` (Did you mean ${meant}?)` : ''}`)
    }
    query[name] = value
  }
  if (paginate && operation.spec.paging === undefined) refuse(`${method} ${operation.spec.path} answers no list`)
  if (text !== undefined && method === 'GET') refuse('A GET has no body')
  const body = await bodyOf(context, text)
  const platform = await context.platform()
  const isInference = operation.spec.path.startsWith('/ai/v1/')
  if (org !== undefined && !isInference)
    refuse(`${method} ${operation.spec.path} takes no --org: it says whose inference it is`)
  const place = isInference ? await placeOf(context, org) : {}
  const call = { ...params, ...query, ...place, ...(body !== undefined && { body }) }
  const inference = body as { stream?: boolean } | undefined
  if (isInference && inference?.stream === true) {
    const streaming = operation as unknown as sdk.Operation<{ body: object }, unknown>
    return printed(context, sdk.stream(streaming, platform, { ...place, body: inference }, context.call))
  }
  if (operation.spec.path.endsWith('/stream')) return stream(context, platform, operation, call)
  if (paginate) {
    const items: unknown[] = []
    for await (const item of sdk.all(operation as unknown as AnyList, platform, call, context.call)) items.push(item)
    return { data: items, text: JSON.stringify(items, undefined, 2) }
  }
  const answer = await (operation as unknown as AnyCall)(platform, call, context.call)
  if (answer instanceof Blob) {
    if (context.world.stdout.isTTY) refuse(`The answer is ${answer.type || 'binary'}: redirect it into a file`)
    if (context.output.isJson) return { data: { bytes: answer.size, type: answer.type } }
    await context.output.bytes(new Uint8Array(await answer.arrayBuffer()))
    return { data: null }
  }
  const shown =
    typeof answer === 'string' ? answer : answer === undefined ? undefined : JSON.stringify(answer, undefined, 2)
  return { data: answer ?? null, text: shown }
}

/** Whose inference it is: of an API key nothing has to be said. */
async function placeOf(context: Context, org: string | undefined): Promise<{ organizationId?: string }> {
  if ((await applicationOfKey(context)) !== undefined) return {}
  const linked = org === undefined ? await findProject(context.world.cwd) : undefined
  if (linked) return { organizationId: linked.project.organizationId }
  return { organizationId: (await reachOrganization(context, org)).id }
}

/** Events of an inference, each as it is. */
async function printed(context: Context, chunks: AsyncIterable<object>): Promise<Outcome> {
  let events = 0
  for await (const chunk of chunks) {
    events++
    context.output.event({ type: 'chunk', ...chunk }, JSON.stringify(chunk))
  }
  return { data: { events } }
}

async function stream(
  context: Context,
  platform: sdk.Platform,
  operation: AnyOperation,
  call: object,
): Promise<Outcome> {
  let events = 0
  const followed = sdk.follow(operation as unknown as sdk.Operation<object, string>, platform, call, {
    signal: context.signal,
  })
  for await (const { event, id, data } of followed) {
    events++
    context.output.event({ type: event, ...(id !== undefined && { id }), data }, JSON.stringify(data))
  }
  return { data: { events } }
}
