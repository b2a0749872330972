import { redirect } from '../../site/navigation.ts'
import type { PageRequest } from '../../site/page.ts'
import { readReturnTo, type ReturnTo } from '../../site/return-to.ts'

/** The authorization request that a page asks its user about. */
export type RequestInReturnTo = Extract<ReturnTo, { kind: 'authorize' }>

/** Redirects to `returnTo`: if the page is not needed, or not yet, authorize decides again what comes next. */
export const backToRequest = ({ c, deps, field }: PageRequest): Response =>
  redirect(c, readReturnTo(deps, field('returnTo')).url)

/** Common settings of pages that ask the user about the authorization request in `returnTo`. */
export const aboutRequest = {
  session: 'any',
  back: backToRequest,
  find: (request: PageRequest): RequestInReturnTo | Response => {
    const returnTo = readReturnTo(request.deps, request.field('returnTo'))
    return returnTo.kind === 'authorize' ? returnTo : backToRequest(request)
  },
} as const
