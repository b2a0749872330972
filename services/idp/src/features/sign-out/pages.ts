import { z } from 'zod'
import { page, type PageRequest } from '../../site/page.ts'
import { endSession } from '../sessions/sessions.ts'
import { answerQuestion, answerSignedOut, purposeOf } from './answers.ts'
import { checkLogoutRequest, type LogoutRequest } from './logout-request.ts'

/** The client's request, which the form carries over from /oauth2/logout; empty if the user came by a link. */
const findRequest = ({ c, deps, field }: PageRequest): Promise<LogoutRequest> =>
  checkLogoutRequest(deps, c.req.method === 'POST' ? (field('request') ?? '') : '')

export const signOutPage = page({
  path: '/sign-out',
  session: 'any',
  back: async (request) => answerSignedOut(request.c, request.deps, await findRequest(request)),
  find: findRequest,
  show: ({ c, deps, session, target }) => answerQuestion(c, deps, session, target),
  form: z.object({}),
  csrf: ({ target }) => purposeOf(target),
  async submit({ c, deps, target }) {
    await endSession(c, deps)
    return answerSignedOut(c, deps, target)
  },
})
