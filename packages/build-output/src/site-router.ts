import type { Answer, HasFile, RouteRequest, Router } from './answer.ts'

/** What a site answers with in three steps, between which routes of vercel.json can stand. */
export interface SiteSteps {
  /** Looks up the path that a visitor asks for; undefined: nothing is there but what answers any path. */
  find(request: RouteRequest, hasFile: HasFile): Answer | undefined
  /** Looks up a path that a route leads to, which the visitor never sees. request: the visitor's own. */
  findRewritten(to: Pick<RouteRequest, 'path' | 'query'>, request: RouteRequest, hasFile: HasFile): Answer | undefined
  /** Answers a path at which `find` found nothing: by a fallback, a server, or with 404. */
  answerRest(request: RouteRequest, hasFile: HasFile): Answer
}

/** A site that answers by itself: plain files, a worker or a server. */
export type SiteRouter = Router & SiteSteps

export const siteRouter = (steps: SiteSteps): SiteRouter => ({
  ...steps,
  route: (request, hasFile) => steps.find(request, hasFile) ?? steps.answerRest(request, hasFile),
})
