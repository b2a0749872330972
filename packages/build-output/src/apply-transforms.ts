import type { CompiledRoute } from './compile-route.ts'
import { holds } from './conditions.ts'
import type { Transform, ValueTest } from './manifest.ts'
import { joinQueries, withoutParameters } from './query.ts'
import type { RequestState } from './request-state.ts'
import { type Captures, inHeader, inPath, inQuery } from './template.ts'

/** Sets, appends and deletes the targets of a route's `transforms`. */
export function applyTransforms(
  transforms: CompiledRoute['transforms'],
  captures: Captures,
  state: RequestState,
): void {
  for (const { transform, args } of transforms) {
    if (transform.type === 'request.path') {
      state.visiblePath = args[0]?.(captures, inPath) ?? state.visiblePath
      continue
    }
    const isQuery = transform.type === 'request.query'
    const values = args.map((template) => template(captures, isQuery ? (value) => value : inHeader))
    if (isQuery) transformQuery(transform, values.map(inQuery), state)
    else transformHeaders(transform, values, state)
  }
}

type Targeted = Exclude<Transform, { type: 'request.path' }>

function targetTest({ target: { key } }: Targeted, isHeader: boolean): (name: string) => boolean {
  const cased = (text: string): string => (isHeader ? text.toLowerCase() : text)
  if (typeof key === 'string') return (name) => name === cased(key)
  // Vercel has no patterns here either; a pattern alone must not match every name.
  return (name) => key.re === undefined && holds(key, name)
}

function transformQuery(transform: Targeted, values: readonly string[], state: RequestState): void {
  const matches = targetTest(transform, false)
  if (transform.op !== 'append') state.query = withoutParameters(state.query, matches)
  const name = nameOf(transform.target.key)
  if (transform.op === 'delete' || name === undefined) return
  for (const value of values) state.query = joinQueries(state.query, `${encodeURIComponent(name)}=${value}`)
}

function transformHeaders(transform: Targeted, values: readonly string[], state: RequestState): void {
  const isRequest = transform.type === 'request.headers'
  const matches = targetTest(transform, true)
  if (transform.op === 'delete') {
    const names = isRequest
      ? [...Object.keys(state.request.headers), ...state.requestHeaders.keys()]
      : [...state.headers.keys()]
    for (const name of names.filter(matches)) {
      if (isRequest) state.setRequestHeader(name, undefined)
      else state.headers.delete(name)
    }
    return
  }
  const name = nameOf(transform.target.key)?.toLowerCase()
  if (name === undefined) return
  const earlier = isRequest ? state.header(name) : state.headers.get(name)
  const kept = transform.op === 'append' && earlier !== undefined ? [earlier] : []
  const value = [...kept, ...values].join(', ')
  if (isRequest) state.setRequestHeader(name, value)
  else state.setHeader(name, value)
}

/** Returns a target's name if it is a single one. */
function nameOf(key: string | ValueTest): string | undefined {
  if (typeof key === 'string') return key
  return key.eq === undefined ? undefined : String(key.eq)
}
