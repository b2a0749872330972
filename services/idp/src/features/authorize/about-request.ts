import { redirect } from '../../site/navigation.ts'
import type { PageRequest } from '../../site/page.ts'
import { readReturnTo, type ReturnTo } from '../../site/return-to.ts'

/** The authorization request that a page asks its user about. */
export type RequestInReturnTo = Extract<ReturnTo, { kind: 'authorize' }>

/** Whatever is not ready for the question of a page starts again where it is decided that there is one. */
export const backToRequest = ({ c, deps, field }: PageRequest): Response =>
  redirect(c, readReturnTo(deps, field('returnTo')).url)

/** What pages share that ask the user about an authorization request, as `returnTo` names it. */
export const aboutRequest = {
  session: 'any',
  back: backToRequest,
  find: (request: PageRequest): RequestInReturnTo | Response => {
    const returnTo = readReturnTo(request.deps, request.field('returnTo'))
    return returnTo.kind === 'authorize' ? returnTo : backToRequest(request)
  },
} as const
