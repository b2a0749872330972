import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { bareEtag, etagOf, namesEtag } from '@platform/service/entity-tag'
import { readTrace } from '@platform/service/trace'
import type { OverviewDeps } from '../deps.ts'
import { chooseEncoded } from '../../../http/accepted-encodings.ts'
import { dismiss } from '../../../http/dismiss.ts'
import { addressOf, type Arrival, header, record, requestIdOf } from '../../../http/exchange.ts'
import { openFile } from '../../../http/open-file.ts'
import { originForm, pathOf } from '../../../http/request-target.ts'
import { consolePolicy } from './policy.ts'

/** What a console is served from. */
export interface ConsoleSite {
  /** An absolute folder with index.html and, in `_`, the files that it names; each may lie beside copies of it in `.br` and `.gz`. */
  folder: string
  /** The OAuth client that its pages sign in with. */
  clientId: string
}

interface Answer {
  status: number
  headers: Record<string, string>
  body: Buffer | string
}

/** The build names a file after its content, so the bytes at an address never change. */
const ASSET = /^\/_\/(?<name>\w[\w.-]*-[\w-]{8,}\.(?<extension>[a-z0-9]+))$/
const typeOf: ReadonlyMap<string | undefined, string> = new Map([
  ['js', 'text/javascript; charset=utf-8'],
  ['css', 'text/css; charset=utf-8'],
  ['svg', 'image/svg+xml'],
  ['png', 'image/png'],
  ['woff2', 'font/woff2'],
  ['json', 'application/json'],
])
const FOREVER = 'public, max-age=31536000, immutable'
const ASK_AGAIN = 'no-cache'

const copies = [
  { encoding: 'br', suffix: '.br' },
  { encoding: 'gzip', suffix: '.gz' },
] as const

const text = (status: number, sentence: string, headers: Record<string, string> = {}): Answer => ({
  status,
  headers: { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store', ...headers },
  body: sentence,
})

async function readWhole(path: string): Promise<Buffer | undefined> {
  const file = await openFile(path)
  if (!file) return undefined
  try {
    return await file.readFile()
  } finally {
    await file.close()
  }
}

/** Answers with a file, as the copy that the client prefers of those that are there. undefined: there is no such file. */
async function findFile(
  path: string,
  incoming: IncomingMessage,
  caching: { type: string; cacheControl: string },
): Promise<Answer | undefined> {
  const accepted = header(incoming, 'accept-encoding')
  let offered: readonly (typeof copies)[number][] = copies
  for (;;) {
    const chosen = chooseEncoded(accepted, offered)
    const body = await readWhole(`${path}${chosen?.suffix ?? ''}`)
    if (body) {
      const headers = {
        'content-type': caching.type,
        'cache-control': caching.cacheControl,
        vary: 'Accept-Encoding',
        ...(chosen && { 'content-encoding': chosen.encoding }),
      }
      return { status: 200, headers, body }
    }
    if (!chosen) return undefined
    offered = offered.filter((copy) => copy !== chosen)
  }
}

/** Adds the entity tag, or takes the body away if the client's copy is current. */
function withEtag(incoming: IncomingMessage, answer: Answer): Answer {
  if (answer.status !== 200) return answer
  const etag = etagOf(answer.body)
  const headers: Record<string, string> = { ...answer.headers, etag }
  const held = header(incoming, 'if-none-match')
  if (held === undefined || !namesEtag(held, bareEtag(etag))) return { ...answer, headers }
  const { 'content-type': _type, 'content-encoding': _encoding, ...kept } = headers
  return { status: 304, headers: kept, body: '' }
}

/**
 * Serves the console: `/config.json`, which tells its pages what this installation is; files of the build below `/_/`, or 404; and
 * the page itself on every other path, since its script decides what an address shows. 503 while nothing is built. Paths are never
 * decoded, so none leads out of the folder.
 */
export function createConsoleServer(deps: OverviewDeps, { folder, clientId }: ConsoleSite): RequestListener {
  const common = {
    'content-security-policy': consolePolicy(deps),
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'permissions-policy': 'clipboard-write=(self)',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
  }
  const configuration = JSON.stringify({
    apiUrl: deps.publicUrl,
    issuer: deps.idpUrl,
    clientId,
    appsUrl: deps.appsUrl.origin,
  })

  async function answer(incoming: IncomingMessage, path: string): Promise<Answer> {
    if (incoming.method !== 'GET' && incoming.method !== 'HEAD')
      return text(405, 'The console is read with GET', { allow: 'GET, HEAD' })
    if (path === '/config.json')
      return {
        status: 200,
        headers: { 'content-type': 'application/json', 'cache-control': ASK_AGAIN },
        body: configuration,
      }
    if (path.startsWith('/_/')) {
      const { name, extension } = ASSET.exec(path)?.groups ?? {}
      const type = typeOf.get(extension)
      const file =
        name !== undefined && type !== undefined
          ? await findFile(join(folder, '_', name), incoming, { type, cacheControl: FOREVER })
          : undefined
      return file ?? text(404, 'There is no such file')
    }
    const page = { type: 'text/html; charset=utf-8', cacheControl: ASK_AGAIN }
    return (await findFile(join(folder, 'index.html'), incoming, page)) ?? text(503, 'The console is not built yet')
  }

  async function run(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const startedAt = performance.now()
    const arrival: Arrival = {
      deps,
      incoming,
      address: addressOf(deps, incoming),
      path: pathOf(originForm(incoming.url)),
      isS3: false,
      requestId: requestIdOf(incoming),
      trace: readTrace(header(incoming, 'traceparent'), header(incoming, 'tracestate')),
    }
    let failure: unknown
    let reply: Answer
    try {
      reply = withEtag(incoming, await answer(incoming, arrival.path))
    } catch (error) {
      failure = error
      reply = text(500, 'The console cannot be read')
    }
    const length = reply.status === 304 ? {} : { 'content-length': String(Buffer.byteLength(reply.body)) }
    dismiss(incoming, outgoing)
    outgoing.writeHead(reply.status, { ...common, 'x-request-id': arrival.requestId, ...reply.headers, ...length })
    outgoing.end(incoming.method === 'HEAD' ? undefined : reply.body)
    record(arrival, 'getConsole', reply.status, startedAt, failure)
  }
  return (incoming, outgoing) => void run(incoming, outgoing)
}
