import { getRequestListener } from '@hono/node-server'
import { listen, type Listening } from '@platform/service/http-server'
import { jsonBody, unreadableRequest } from '@platform/service/unreadable-request'
import type { Deps } from '../deps.ts'
import { answerMissing, listEndpoints } from '../endpoints.ts'
import { createApp } from '../http/app.ts'
import { documentsFirst } from '../http/documents-first.ts'

/** The methods that some path of the identity provider has. */
const METHODS = 'GET, HEAD, POST, OPTIONS'

/** Serves the identity provider (port 0: any free one). Rejects if the port is taken. */
export async function startIdp(deps: Deps, address: { host: string; port: number }): Promise<Listening> {
  const endpoints = listEndpoints(deps)
  const app = createApp(deps, endpoints, answerMissing)
  const unreadable = unreadableRequest(deps.logger, METHODS, ({ message }) =>
    jsonBody({ error: 'invalid_request', error_description: message }),
  )
  const answer = getRequestListener(app.fetch, { errorHandler: unreadable.errorHandler })
  const listener = documentsFirst(deps, endpoints, (request, response) => void answer(request, response))
  return listen(listener, address.host, address.port, unreadable.refusal)
}
