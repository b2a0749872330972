import type { Platform } from './platform.ts'
import type { CallOptions } from './sender.ts'
import type { placement } from './place.ts'
import { prepare } from './request.ts'
import type { Repetition } from './repetition.ts'
import type { Paging, Spec } from './spec.ts'

/** The types that the document gives a request. */
interface Data {
  body?: unknown
  path?: unknown
  query?: unknown
  headers?: unknown
}

type HeaderMembers<Headers> = {
  [Name in keyof typeof placement as (typeof placement)[Name] extends keyof Headers ? Name : never]?: string
}
type Members<T> = [NonNullable<T>] extends [never] ? unknown : NonNullable<T>
type Body<D> = D extends { body: infer B }
  ? { body: B }
  : D extends { body?: infer B }
    ? [B] extends [undefined]
      ? unknown
      : { body?: B }
    : unknown
type Intersected<D extends Data> = Members<D['path']> &
  Members<D['query']> &
  HeaderMembers<NonNullable<D['headers']>> &
  Body<D>

/** What an operation takes: the members of its path and query, and `body`. */
export type Params<D extends Data> = { [Name in keyof Intersected<D>]: Intersected<D>[Name] }

type Arguments<D extends Data> =
  Partial<Params<D>> extends Params<D>
    ? [params?: Params<D>, options?: CallOptions]
    : [params: Params<D>, options?: CallOptions]

/** A function for an operation of the platform. Resolves to the body of the answer; throws PlatformError. */
export interface Operation<D extends Data, R> {
  (platform: Platform, ...rest: Arguments<D>): Promise<R>
  readonly spec: Spec
}

/** query: the names of its members, with a space between. */
export function operation<D extends Data, R>(
  method: string,
  path: string,
  repetition: Repetition,
  query = '',
  paging?: Paging,
  place = repetition.place,
): Operation<D, R> {
  const spec: Spec = { method, path, repetition, query: query.split(' '), paging, place }
  const call = async (platform: Platform, params = {}, options = {}) =>
    platform.send(prepare(platform.baseUrl, spec, params, options), { ...repetition.options, ...options })
  return Object.assign(call, { spec }) as unknown as Operation<D, R>
}
