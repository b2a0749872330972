import type { RequestListener } from 'node:http'
import type { EdgeDeps } from '../deps.ts'
import { type RawExchange, createRawListener } from '../../../http/raw-listener.ts'
import { deliverObject } from './deliver-object.ts'
import { observeDelivery } from './log-delivery.ts'
import { nothingHere, sendPage } from './site-page.ts'
import { readTarget } from './targets.ts'

async function handle(exchange: RawExchange<EdgeDeps>): Promise<void> {
  const target = readTarget(exchange.deps, exchange)
  switch (target.kind) {
    case 'object':
      exchange.operation = 'deliverObject'
      await deliverObject(exchange, target, observeDelivery(exchange))
      break
    case 'nothing':
      exchange.operation = 'nothingHere'
      sendPage(exchange.outgoing, nothingHere)
      break
  }
}

/**
 * Serves uploads by hostname: the objects of buckets below OBJECTS_DOMAIN. It must not share an origin with the API. A request
 * that names no object gets a 404 page.
 */
export function createDeliveryServer(deps: EdgeDeps): RequestListener {
  return createRawListener(deps, {
    name: 'edge',
    origins: 'any',
    exposedHeaders: 'Accept-Ranges, Content-Disposition, Content-Range, ETag, X-Request-Id',
    allow: {
      methods: 'GET, HEAD',
      headers: 'If-Match, If-Modified-Since, If-None-Match, If-Range, If-Unmodified-Since, Range',
    },
    handle,
  })
}
