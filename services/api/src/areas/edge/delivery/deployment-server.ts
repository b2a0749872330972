import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { fileNameOf, normalizePath } from '@platform/build-output/normalize-path'
import type { Answer } from '@platform/build-output/router'
import { ApiError } from '@platform/errors/api-error'
import { observeRequest } from '@platform/service/metrics'
import type { EdgeDeps } from '../deps.ts'
import { asApiError, requestIdOf } from '../../../http/exchange.ts'
import { openArtifactFinder } from '../../deploy/artifacts/artifact-blobs.ts'
import { openAssetContents } from './asset-contents.ts'
import { openCompressors } from './compressors.ts'
import { deliverExternal } from './deliver-external.ts'
import { deliverImage, type ImageDeliverer, isImage } from './deliver-image.ts'
import { deliverFunction } from './deliver-function.ts'
import { deliverMiddleware } from './deliver-middleware.ts'
import { deliverPrerender } from './deliver-prerender.ts'
import { deliverUpgrade } from './deliver-upgrade.ts'
import { openResponseCache } from './response-cache.ts'
import { deliverFile, type FileReader } from './deliver-file.ts'
import { type DeployedFunction, type DeployedSite, openDeployedSites } from './deployed-site.ts'
import { openEarlierFiles } from './earlier-files.ts'
import type { FunctionCaller } from './function-caller.ts'
import { cleanAnswerHeaders } from './headers.ts'
import type { PinnedSlots } from './pinned-slots.ts'
import { isLabel, labelBelow } from './request-host.ts'
import { responseOn } from './response-on.ts'
import type { Site } from './site-directory.ts'
import type { PageDeliverer } from './send-prerendered.ts'
import { nothingHere, type SitePage, withRules } from './site-page.ts'
import { flatten, ROBOTS_HEADER, Visit } from './visit.ts'

const OPERATION = 'deliverDeployment'

type ServerDeps = Pick<
  EdgeDeps,
  | 'functions'
  | 'functionTimings'
  | 'logger'
  | 'db'
  | 'blobs'
  | 'sites'
  | 'requestLog'
  | 'recordRequest'
  | 'appsUrl'
  | 'place'
  | 'clientAddress'
  | 'guardedFetch'
  | 'images'
  | 'now'
  | 'stickyTokens'
  | 'isrPages'
  | 'isrTags'
>

/** With this header a Function requests what visitors get, not just its files. */
const VISIT_HEADER = 'x-platform-visit'

/** label: prepended to the host of APPS_URL. url: the target without scheme and host. */
export interface DeploymentServer {
  serve(incoming: IncomingMessage, outgoing: ServerResponse, label: string, url: string): void
  /** Answers an upgrade request; head: the bytes that followed its headers. */
  upgrade(incoming: IncomingMessage, socket: Socket, head: Buffer, label: string, url: string): void
  /**
   * Answers a request of the platform's own from an ACTIVE deployment, whatever its hostname serves by now. It is logged as a
   * visit, and bypasses the cache in both directions.
   */
  serveOwn(
    deployment: { id: string; applicationId: string },
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    label: string,
  ): void
  /**
   * Answers a Function's requests to its own deployment: with one of its files or, if the request has the header
   * `x-platform-visit`, as a visit to the hostname in `Host`; 421 if that hostname is not the deployment's.
   */
  serveFiles(deploymentId: string, incoming: IncomingMessage, outgoing: ServerResponse): void
}

/** The page for an invalid sticky URL. allowed: the methods it was signed for, if only the method is wrong. */
const stickyPage = (allowed: string | undefined): SitePage =>
  allowed === undefined
    ? {
        status: 403,
        title: 'This link is not valid',
        text: 'It was changed, it has expired, or it is of another deployment.',
        code: 'sticky_url_invalid',
      }
    : {
        status: 405,
        title: 'This method is not allowed',
        text: `This link was made for ${allowed}.`,
        code: 'sticky_url_method',
        headers: { allow: allowed },
      }

const words = { PENDING: 'waits for its upload', QUEUED: 'waits to be built', STARTING: 'is being unpacked' }

/** The page for a deployment that is not served; undefined if it is. */
function pageFor({ deployment }: Site): SitePage | undefined {
  if (!deployment)
    return {
      status: 404,
      title: 'Nothing is deployed here yet',
      text: 'This application has no deployment that answers at this address.',
      code: 'nothing_deployed',
    }
  const { status, retiredAt } = deployment
  if (retiredAt)
    return {
      status: 410,
      title: 'This deployment is retired',
      text: 'Its files have been removed to make room for newer ones.',
      code: 'deployment_retired',
    }
  switch (status) {
    case 'ACTIVE':
      return undefined
    case 'FAILED':
      return {
        status: 404,
        title: 'This deployment failed',
        text: 'Its status is FAILED. Its build log says why.',
        code: 'deployment_failed',
      }
    case 'PENDING':
    case 'QUEUED':
    case 'STARTING':
    case 'BUILDING':
    case 'PROVISIONING': {
      const what = status in words ? words[status as keyof typeof words] : 'is being made ready'
      return {
        status: 404,
        title: 'This deployment is not ready yet',
        text: `It ${what}. Its status is ${status}; try again in a moment.`,
        code: 'deployment_not_ready',
      }
    }
  }
}

const statusPages: Readonly<Record<number, Omit<SitePage, 'status'>>> = {
  404: { title: 'This page does not exist', text: 'There is nothing at this address.' },
  405: {
    title: 'This method is not allowed',
    text: 'Files are read with GET and HEAD.',
    headers: { allow: 'GET, HEAD' },
  },
  410: { title: 'This page is gone', text: 'There is nothing at this address any more.' },
  414: { title: 'This address is too long', text: 'The path of a page has at most 2,048 bytes.' },
  500: { title: 'Something went wrong', text: 'The platform could not answer this request.', code: 'internal_error' },
  502: {
    title: 'The origin did not answer',
    text: 'What this address leads to could not be reached.',
    code: 'bad_gateway',
  },
  503: { title: 'Temporarily unavailable', text: 'Try again in a moment.', code: 'unavailable' },
  508: {
    title: 'This address leads to itself',
    text: 'The request came back to where it started.',
    code: 'loop_detected',
  },
}

const statusPage = (status: number): SitePage => ({
  status,
  ...(statusPages[status] ?? {
    title: 'This cannot be shown',
    text: 'The site answers this address with a status alone.',
  }),
})

/**
 * Serves the hostnames of deployments. It adds only caching headers to a site's answers: no CORS, no security headers, no limits
 * (deployments.md Edge).
 */
export function createDeploymentServer(deps: ServerDeps, pinned: PinnedSlots): DeploymentServer {
  const findDeployedSite = openDeployedSites(deps.db, deps.place.region)
  const caller: FunctionCaller = {
    deps,
    pinned,
    timings: deps.functionTimings,
    cache: openResponseCache(),
    compressors: openCompressors(),
    deliverInstead: deliver,
  }
  const findEarlierFile = openEarlierFiles(deps.db)
  const reader: FileReader = {
    blobs: deps.blobs,
    findArtifact: openArtifactFinder(deps.db),
    contents: openAssetContents(deps),
  }

  const deliverer: ImageDeliverer = {
    deps,
    reader,
    answer(site, label, incoming, outgoing) {
      void run(incoming, outgoing, label, incoming.url ?? '/', async (visit) => {
        visit.deploymentId = site.id
        await deliver(visit, site, site.router.route(visit, site.hasFile))
      })
    },
  }

  const pageDeliverer: PageDeliverer = {
    caller,
    pages: deps.isrPages,
    tags: deps.isrTags,
    now: deps.now,
    reader,
    making: new Map(),
    renewing: new Map(),
  }

  async function answerMissing(
    visit: Visit,
    site: DeployedSite,
    answer: Extract<Answer, { kind: 'not-found' }>,
  ): Promise<void> {
    const own = () => withRules(statusPage(404), cleanAnswerHeaders(answer.headers, visit.hostname))
    if (answer.isHashed) {
      // Never the site's own 404 page: HTML in place of a script would break the requesting page.
      const path = fileNameOf(normalizePath(visit.path))
      const file = path === undefined ? undefined : await findEarlierFile(site.environmentId, path)
      if (file) await deliverFile(reader, visit, file, { ...answer, status: 200 })
      else visit.sendPage(own())
      return
    }
    const page = answer.path === undefined ? undefined : site.files.get(answer.path)
    if (page) await deliverFile(reader, visit, page, { ...answer, status: 404 })
    else visit.sendPage(own())
  }

  async function deliver(visit: Visit, site: DeployedSite, answer: Answer): Promise<void> {
    if (answer.unset.includes(ROBOTS_HEADER)) visit.isNoindex = false
    switch (answer.kind) {
      case 'asset': {
        const file = site.files.get(answer.path)
        if (!file) throw new Error(`Deployment ${site.id} routes to ${answer.path}, which it does not have`)
        await deliverFile(reader, visit, file, answer)
        break
      }
      case 'redirect': {
        const headers = flatten(cleanAnswerHeaders(answer.headers, visit.hostname))
        visit.send(answer.status, [...headers, 'location', locationOf(answer.location), 'content-length', '0'])
        break
      }
      case 'status': {
        const headers = cleanAnswerHeaders(answer.headers, visit.hostname)
        if (answer.status >= 400) visit.sendPage(withRules(statusPage(answer.status), headers))
        else if (answer.status === 204 || answer.status === 304) visit.send(answer.status, flatten(headers))
        else visit.send(answer.status, [...flatten(headers), 'content-length', '0'])
        break
      }
      case 'external':
        await deliverExternal(deps, visit, answer, statusPage)
        break
      case 'not-found':
        await answerMissing(visit, site, answer)
        break
      case 'function': {
        const fn = functionOf(site, answer.path)
        if (visit.upgrade) await deliverUpgrade(caller, visit, fn, answer, visit.upgrade.head)
        else await deliverFunction(caller, visit, site, fn, answer)
        break
      }
      case 'prerender':
        await deliverPrerender(pageDeliverer, visit, site, functionOf(site, answer.path), answer)
        break
      case 'middleware': {
        const next = await deliverMiddleware(caller, visit, functionOf(site, answer.path), answer)
        if (next) await deliver(visit, site, next)
        break
      }
      case 'answered':
        throw new Error(`Deployment ${site.id} is answered by a middleware that was not called`)
    }
  }

  const functionOf = (site: DeployedSite, path: string): DeployedFunction => {
    const deployedFunction = site.functions.get(path)
    if (!deployedFunction)
      throw new Error(`Deployment ${site.id} routes to the Function ${path}, which it does not have`)
    return deployedFunction
  }

  /**
   * True if a visit came by an ordinary URL, or by a valid sticky one of this deployment, which pins it. Otherwise answers it.
   */
  function isAdmitted(visit: Visit, { id: deploymentId }: DeployedSite): boolean {
    const { stickyToken: token, path, method } = visit
    if (token === undefined) return true
    const read = deps.stickyTokens.read(token, { deploymentId, path, method, now: deps.now() })
    if (read.isValid) visit.pin = read.pin
    else visit.sendPage(stickyPage(read.allowed))
    return read.isValid
  }

  async function answerOwnVisit(visit: Visit, deploymentId: string): Promise<void> {
    const site = isLabel(visit.label) ? await deps.sites.find(visit.label) : undefined
    if (site?.deployment?.id === deploymentId) await answerVisit(visit)
    else visit.send(421, ['content-length', '0'])
  }

  async function answerVisit(visit: Visit): Promise<void> {
    const { label, outgoing } = visit
    const site = isLabel(label) ? await deps.sites.find(label) : undefined
    if (!site) {
      visit.sendPage(nothingHere)
      return
    }
    visit.applicationId = site.applicationId
    // Production's hostname shows the same pages, and is the one to be found.
    visit.isNoindex = site.hostnameType !== 'APP'
    visit.deploymentId = site.deployment?.id
    if (site.deployment) visit.servedBy = { deploymentStatus: site.deployment.status }
    const page = pageFor(site)
    if (page) {
      visit.sendPage(page)
      return
    }
    const deployed = site.deployment && (await findDeployedSite(site.deployment.id))
    if (!deployed) {
      visit.sendPage(nothingHere)
      return
    }
    if (outgoing.destroyed || !isAdmitted(visit, deployed)) return
    await answerBy(visit, deployed)
  }

  async function answerBy(visit: Visit, deployed: DeployedSite): Promise<void> {
    if (isImage(deployed, visit.path)) await deliverImage(deliverer, visit, deployed, statusPage)
    else await deliver(visit, deployed, deployed.router.route(visit, deployed.hasFile))
  }

  /** Answers with the error; an answer that had begun is cut off, so that the client sees that it is incomplete. */
  function fail(visit: Visit, error: unknown, startedAt: number): void {
    const { incoming, outgoing } = visit
    const failure = asApiError(error)
    const status = failure instanceof ApiError ? failure.status : 500
    if (outgoing.destroyed || visit.socket.destroyed) {
      observeRequest(OPERATION, 499, performance.now() - startedAt)
      return
    }
    const requestId = requestIdOf(incoming)
    if (outgoing.headersSent) outgoing.destroy()
    else visit.sendPage({ ...statusPage(status), headers: { 'x-request-id': requestId } })
    deps.recordRequest({
      operation: OPERATION,
      requestId,
      traceId: undefined,
      method: incoming.method,
      status,
      startedAt,
      failure,
      details: { deploymentId: visit.deploymentId },
    })
  }

  async function run(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    label: string,
    url: string,
    answer: (visit: Visit) => Promise<void> = answerVisit,
  ): Promise<void> {
    const startedAt = performance.now()
    // A pipelined request waits until it gets the socket, so that the bytes counted are its own.
    if (!outgoing.socket) await once(outgoing, 'socket')
    const visit = new Visit(deps, incoming, outgoing, label, url)
    try {
      await answer(visit)
      observeRequest(OPERATION, outgoing.statusCode, performance.now() - startedAt)
    } catch (error) {
      fail(visit, error, startedAt)
    }
  }

  return {
    serve(incoming, outgoing, label, url) {
      void run(incoming, outgoing, label, url)
    },
    upgrade(incoming, socket, head, label, url) {
      void run(incoming, responseOn(incoming, socket), label, url, (visit) => {
        visit.upgrade = { head }
        return answerVisit(visit)
      })
    },
    serveOwn({ id, applicationId }, incoming, outgoing, label) {
      void run(incoming, outgoing, label, incoming.url ?? '/', async (visit) => {
        visit.applicationId = applicationId
        visit.deploymentId = id
        visit.servedBy = { deploymentStatus: 'ACTIVE' }
        visit.isUncached = true
        const deployed = await findDeployedSite(id)
        if (!deployed) visit.sendPage(nothingHere)
        else if (isAdmitted(visit, deployed)) await answerBy(visit, deployed)
      })
    },
    serveFiles(deploymentId, incoming, outgoing) {
      if (incoming.headers[VISIT_HEADER] !== undefined) {
        const label = labelBelow(hostnameOf(incoming), deps.appsUrl.hostname) ?? ''
        void run(incoming, outgoing, label, incoming.url ?? '/', (visit) => answerOwnVisit(visit, deploymentId))
        return
      }
      // Not a visit, so it is not logged.
      void run(incoming, outgoing, 'files', incoming.url ?? '/', async (visit) => {
        const deployed = await findDeployedSite(deploymentId)
        if (!deployed) visit.sendPage(nothingHere)
        else await deliver(visit, deployed, deployed.fileRouter.route(visit, deployed.hasFile))
      })
    },
  }
}

const hostnameOf = ({ headers }: IncomingMessage): string => (headers.host ?? '').replace(/:\d+$/, '').toLowerCase()

/** Encodes a location for a header: the captures of a path pattern may be any text. */
const locationOf = (location: string): string =>
  // oxlint-disable-next-line no-control-regex -- these are what no header may hold
  location.replaceAll(/[\u0000-\u0020\u007f-\uffff]+/g, (text) => encodeURIComponent(text.toWellFormed()))
