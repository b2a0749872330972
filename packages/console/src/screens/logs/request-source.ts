import { follow, listRequests, type Platform, type RequestLog, streamRequests } from '@platform/sdk'
import type { FeedSource } from '../../log/feed.ts'
import type { LogLine } from '../../log/lines.ts'
import { laterOf, placeOfId } from './ids.ts'
import { isOfFilter, type RequestFilter } from './matches.ts'

/** A request as a row shows it; the text is what one can find in it. */
export interface RequestLine extends LogLine {
  method: string
  status: number
  path: string
  durationMs: number
  cacheStatus: string | null
}

const levelOf = (status: number): LogLine['level'] => (status >= 500 ? 'ERROR' : status >= 400 ? 'WARN' : 'INFO')

function requestLineOf({ id, request, response, metrics }: RequestLog): RequestLine {
  const { method, query } = request
  const { status, cacheStatus } = response
  const path = query === '' ? request.path : `${request.path}?${query}`
  const text = [method, status, `${request.hostname}${path}`, `${metrics.durationMs} ms`, cacheStatus].filter(Boolean)
  return {
    ...placeOfId(id),
    level: levelOf(status),
    text: text.join(' '),
    method,
    status,
    path,
    durationMs: metrics.durationMs,
    cacheStatus,
  }
}

/** The requests of an application. */
export const requestSource = (platform: Platform, id: string, filter: RequestFilter): FeedSource<RequestLine> => ({
  async list({ from, ...query }, signal) {
    const params = { id, ...filter, ...query, ...laterOf(filter.from, from) }
    const { items, total, nextCursor } = await listRequests(platform, params, { signal })
    return { lines: items.map(requestLineOf), total, nextCursor }
  },
  async *follow(options) {
    for await (const event of follow(streamRequests, platform, { id }, options)) {
      if (event.event === 'gap') yield 'gap'
      else yield { id: event.data.id, line: isOfFilter(filter, event.data) ? requestLineOf(event.data) : undefined }
    }
  },
})
