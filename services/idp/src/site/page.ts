import { BadRequest } from '@platform/errors/api-error'
import { z } from 'zod'
import type { Deps } from '../deps.ts'
import type { Ctx, Endpoint } from '../http/app.ts'
import { readForm } from '../http/body.ts'
import { showRefusals } from './answer-page.ts'
import { readCookie } from './cookies.ts'
import { requireCsrf } from './csrf.ts'
import { redirectToSignIn, redirectToStepUp } from './navigation.ts'
import { type AccountPage, type ReturnTo, returnToPage } from './return-to.ts'
import type { Session } from './session.ts'

/**
 * Who may use a page. `none`: anybody. `any`: any signed-in user. `proven`: users who have a second factor must have used it.
 * `fresh`: as `proven`, and the user signed in or used the factor within the last 15 minutes.
 */
export type SessionNeed = 'none' | 'any' | 'proven' | 'fresh'

/** A request, before its session is looked up. */
export interface PageRequest {
  c: Ctx
  deps: Deps
  /** A field of the form; of the query if the page is only shown. Undefined if it is absent, or empty in a form. */
  field: (name: string) => string | undefined
}

/** The session if the page needs one; otherwise a function that looks it up. */
type Visitor<S extends SessionNeed> = S extends 'none'
  ? { findSession: () => Promise<Session | undefined> }
  : { session: Session }

/** Arguments of `show` and `submit`. */
export type PageCall<S extends SessionNeed, T = undefined> = PageRequest & Visitor<S> & { target: T }

/** Arguments of `submit`. */
export type FormCall<S extends SessionNeed, F extends z.ZodType, T = undefined> = PageCall<S, T> & { form: z.output<F> }

type Soon<R> = R | Promise<R>

/**
 * Where visitors who may not use the page lead back to after signing in or using a second factor. A page that other sites
 * link to may answer visitors without a session itself.
 */
type Back<S extends SessionNeed> = S extends 'none'
  ? { back?: undefined }
  : { back: AccountPage | ((request: PageRequest) => S extends 'any' ? Soon<ReturnTo | Response> : ReturnTo) }
/** A page's session need and its way back, as `identify` reads them. */
type Entrance = { session: 'none' } | ({ session: Exclude<SessionNeed, 'none'> } & Back<'any'>)

/** What a page does with a form, if it accepts one. A form without a schema or a CSRF token does not compile. */
type Form<S extends SessionNeed, T, F extends z.ZodType> =
  | {
      show: (call: PageCall<S, T>) => Soon<Response>
      form?: undefined
      csrf?: undefined
      submit?: undefined
    }
  | {
      /** Omitted if another page shows the form. */
      show?: (call: PageCall<S, T>) => Soon<Response>
      form: F
      /** The form's purpose, as in the CSRF token that the page with the form made. */
      csrf: string | ((call: PageCall<S, T>) => string)
      submit: (call: FormCall<S, F, T>) => Soon<Response>
    }

type Spec<S extends SessionNeed, T, F extends z.ZodType> = {
  /** Below {account_url}. */
  path: `/${string}`
  session: S
  /** Finds the target of the request, or answers if there is nothing to show or submit. Changes nothing. */
  find?: (request: PageRequest & Visitor<S>) => Soon<T | Response>
} & Back<S> &
  Form<S, T, F>

/** A page of the account site, ready to be listed and mounted. */
export interface Page {
  readonly path: `/${string}`
  readonly session: SessionNeed
  readonly hasForm: boolean
  mount(deps: Pick<Deps, 'accountPath'>, guard: SessionGuard): Endpoint
}

/** How pages look up a visitor's session and proof; endpoints.ts passes it in. */
interface SessionGuard {
  findSession: (c: Ctx, deps: Deps) => Promise<Session | undefined>
  /** The page that has to come first; undefined if the session suffices. */
  findMissingProof: (
    deps: Deps,
    session: Session,
    need: 'proven' | 'fresh',
  ) => Promise<'sign-in' | 'second-factor' | undefined>
}

/** A text field of a form; empty if missing. */
export const textField = z.string().default('')

function parseForm<F extends z.ZodType>(form: F, sent: ReadonlyMap<string, string>): z.output<F> {
  const parsed = form.safeParse(Object.fromEntries(sent))
  if (parsed.success) return parsed.data
  throw new BadRequest(`The field ${parsed.error.issues[0]?.path.join('.')} of the form is not right`)
}

/** Reads fields of a query; each throws BadRequest if it is given more than once, as in a form. */
const fieldOfQuery =
  (c: Ctx): PageRequest['field'] =>
  (name) => {
    const [value, ...more] = c.req.queries(name) ?? []
    if (more.length > 0) throw new BadRequest(`The parameter ${name} is sent more than once`)
    return value
  }

/** Returns the visitor, or the answer to one who may not use the page. */
async function identify(
  request: PageRequest,
  entrance: Entrance,
  { findSession, findMissingProof }: SessionGuard,
): Promise<Visitor<'none'> | Visitor<'any'> | Response> {
  const { c, deps } = request
  if (entrance.session === 'none') return { findSession: () => findSession(c, deps) }
  const { session: need, back } = entrance
  const session = await findSession(c, deps)
  const missing = session ? need !== 'any' && (await findMissingProof(deps, session, need)) : 'sign-in'
  if (session && !missing) return { session }
  const place = typeof back === 'string' ? returnToPage(deps, back) : await back(request)
  if (place instanceof Response) return place
  return missing === 'second-factor' ? redirectToStepUp(c, deps, place) : redirectToSignIn(c, deps, place)
}

/**
 * Declares a page of the account site. A request passes, in this order: the body's type, size and parameters (400), the
 * session (a redirect that leads back), `find`, origin and CSRF token (403), the form's schema (400), `show` or `submit`.
 * Refusals are shown as a page. `session` is required, and so are `form` and `csrf` beside `submit`, so that a form without a
 * guard does not compile.
 */
export function page<const S extends SessionNeed, T = undefined, F extends z.ZodType = z.ZodType>(
  spec: Spec<S, T, F>,
): Page {
  const { path, session, find, show, form, csrf, submit } = spec

  async function enter(request: PageRequest, guard: SessionGuard): Promise<PageCall<S, T> | Response> {
    const visitor = await identify(request, spec as Entrance, guard)
    if (visitor instanceof Response) return visitor
    // `session` decides which of the two it is, here as in the type.
    const known = { ...request, ...(visitor as Visitor<S>) }
    const target = await find?.(known)
    return target instanceof Response ? target : { ...known, target: target as T }
  }

  return {
    path,
    session,
    hasForm: submit !== undefined,
    mount: ({ accountPath }, guard) => ({
      path: `${accountPath}${path}`,
      cors: false,
      ...(show && {
        GET: showRefusals(async (c, deps) => {
          const call = await enter({ c, deps, field: fieldOfQuery(c) }, guard)
          return call instanceof Response ? call : show(call)
        }),
      }),
      ...(submit && {
        POST: showRefusals(async (c, deps) => {
          const sent = await readForm(c)
          const call = await enter({ c, deps, field: (name) => sent.get(name) }, guard)
          if (call instanceof Response) return call
          requireCsrf(c, deps, {
            token: sent.get('csrf'),
            cookie: 'session' in call ? call.session.cookie : readCookie(c, deps, 'before'),
            purpose: typeof csrf === 'string' ? csrf : csrf(call),
          })
          return submit(Object.assign(call, { form: parseForm(form, sent) }))
        }),
      }),
    }),
  }
}
