import type { IncomingMessage, ServerResponse } from 'node:http'
import { INPUT_BYTES_MAX } from '@platform/image-transformer/image-transformer'
import { quotedEtag, namesEtag } from '@platform/service/entity-tag'
import type { EdgeDeps } from '../deps.ts'
import { isLoop } from '../../../http/cdn-loop.ts'
import { sourceHeaders } from '../images/fetch-source.ts'
import { ImageRefusal, tooLongSource } from '../images/image-refusal.ts'
import { isImagePath, readImageRequest } from '../images/image-request.ts'
import type { ImageOrigin } from '../images/images.ts'
import { collectAnswer } from './collected-answer.ts'
import type { DeployedSite } from './deployed-site.ts'
import { type FileReader, readFile } from './deliver-file.ts'
import { imagePage } from './image-page.ts'
import type { SitePage } from './site-page.ts'
import type { Visit } from './visit.ts'

/** Nothing in an image may run, however it is opened. */
const POLICY_DEFAULT = "script-src 'none'; frame-src 'none'; sandbox;"

/** What is needed to generate images and read their sources. */
export interface ImageDeliverer {
  deps: Pick<EdgeDeps, 'images'>
  reader: FileReader
  /** Answers an internal request like a visitor's, except that it is not logged. */
  answer: (site: DeployedSite, label: string, incoming: IncomingMessage, outgoing: ServerResponse) => void
}

/** True if a path of this deployment requests an image. Looks at the path only. */
export const isImage = ({ images }: DeployedSite, path: string): boolean => isImagePath(path, images)

function originOf({ reader, answer }: ImageDeliverer, visit: Visit, site: DeployedSite): ImageOrigin {
  const { host, protocol, label } = visit
  const headers = { ...sourceHeaders, host }
  const routed = { ...headers, 'x-forwarded-host': host, 'x-forwarded-proto': protocol }
  return {
    deploymentId: site.id,
    organizationId: site.organizationId,
    policy: site.images,
    host,
    protocol,
    findFile(path, query) {
      const request = { method: 'GET', path, query, host, headers: routed, protocol }
      const answer = site.router.route(request, site.hasFile)
      const file = answer.kind === 'asset' && answer.status === 200 ? site.files.get(answer.path) : undefined
      if (!file || answer.kind !== 'asset') return undefined
      visit.servedBy = file.servedBy
      const own = answer.headers.find(([name]) => name === 'cache-control')?.[1]
      return {
        sha256: file.sha256,
        bytes: file.bytes,
        cacheControl: own ?? file.cacheControl,
        read: () => readFile(reader, file),
      }
    },
    async ask(path, query, signal) {
      const url = query === '' ? path : `${path}?${query}`
      const sourceRequest = { url, headers, deploymentId: site.id, bytesMax: INPUT_BYTES_MAX }
      const collected = await collectAnswer(sourceRequest, signal, (incoming, outgoing) =>
        answer(site, label, incoming, outgoing),
      )
      if (!collected) throw new ImageRefusal('image_too_large', tooLongSource)
      return collected
    },
  }
}

/**
 * Answers a request for an image (D88). Errors are uncacheable pages with a status and `x-platform-error`. Throws BadGateway
 * (D22).
 */
export async function deliverImage(
  deliverer: ImageDeliverer,
  visit: Visit,
  site: DeployedSite,
  statusPage: (status: number) => SitePage,
): Promise<void> {
  if (visit.method !== 'GET' && visit.method !== 'HEAD') {
    visit.sendPage(statusPage(405))
    return
  }
  visit.dropBody()
  try {
    if (isLoop(visit.incoming.headers['cdn-loop']))
      throw new ImageRefusal('image_loop', 'The request came back to where it started.')
    const request = readImageRequest(visit.path, visit.query, site.images)
    if (!request) throw new Error(`${visit.path} is no path of images`)
    const origin = originOf(deliverer, visit, site)
    const { accept, 'if-none-match': tags } = visit.incoming.headers
    const isCurrent = (etag: string) => tags !== undefined && namesEtag(tags, etag)
    const image = await deliverer.deps.images.answer(request, origin, {
      accept,
      wantsContent: (etag) => visit.method === 'GET' && !isCurrent(etag),
    })
    visit.cacheStatus = image.cacheStatus
    const { rules } = site.images
    const suffix = image.contentType.slice('image/'.length).replace('svg+xml', 'svg')
    const policy = rules?.contentSecurityPolicy ?? POLICY_DEFAULT
    const headers = ['etag', quotedEtag(image.etag), 'cache-control', image.cacheControl]
    headers.push('x-content-type-options', 'nosniff', 'content-security-policy', policy)
    headers.push('x-cache', image.cacheStatus.toUpperCase())
    if (typeof request.format !== 'string') headers.push('vary', 'Accept')
    if (isCurrent(image.etag)) {
      visit.cacheStatus = 'revalidated'
      visit.send(304, headers)
      return
    }
    const disposition = rules?.contentDispositionType ?? 'inline'
    headers.push('content-type', image.contentType, 'content-length', String(image.bytes))
    headers.push('content-disposition', `${disposition}; filename="${request.fileName}.${suffix}"`)
    if (image.content) await visit.stream(200, headers, image.content)
    else visit.send(200, headers)
  } catch (error) {
    if (!(error instanceof ImageRefusal) || visit.outgoing.headersSent) throw error
    visit.sendPage(imagePage(error))
  }
}
