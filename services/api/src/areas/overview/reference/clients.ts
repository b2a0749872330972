import { createHash } from 'node:crypto'
import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { z } from '@hono/zod-openapi'
import { ApiError, NotFound } from '@platform/errors/api-error'
import { namesEtag, quotedEtag } from '@platform/service/entity-tag'
import { type OverviewDeps, openEndpoint } from '../deps.ts'
import { type Exchange, header, type Reply, throttleAddress } from '../../../http/exchange.ts'
import { ifMissing, openFile } from '../../../http/open-file.ts'

/** A client as a package. Its name has 8 digits of its content's hash, so the bytes at an address never change. */
const PACKAGE = /^(sdk|cli)-\d+\.\d+\.\d+-[0-9a-f]{8}\.tgz$/
const PACKAGE_TYPE = 'application/gzip'
/** The other files, which change with each release. */
const typeOf: ReadonlyMap<string, string> = new Map([
  ['platform.mjs', 'text/javascript; charset=utf-8'],
  ['checksums.txt', 'text/plain; charset=utf-8'],
  ['llms.txt', 'text/plain; charset=utf-8'],
  ['agents.md', 'text/markdown; charset=utf-8'],
])

/** The package that was put into the folder last; undefined: there is none of this client. */
async function findCurrent(folder: string, client: string): Promise<string | undefined> {
  const names = ((await readdir(folder).catch(ifMissing)) ?? []).filter((name) => PACKAGE.exec(name)?.[1] === client)
  const dated = await Promise.all(
    names.map(async (name) => ({ name, stats: await lstat(join(folder, name)).catch(ifMissing) })),
  )
  const files = dated.flatMap(({ name, stats }) => (stats?.isFile() ? { name, mtimeMs: stats.mtimeMs } : []))
  return files.toSorted((a, b) => b.mtimeMs - a.mtimeMs)[0]?.name
}

/** The 404 of a file. For a client that is served in another version it names the address of that. */
async function missing(publicUrl: string, folder: string, file: string): Promise<ApiError> {
  const client = /^(sdk|cli)-/.exec(file)?.[1]
  const current = client && (await findCurrent(folder, client))
  if (!current) return new NotFound('File')
  return new ApiError(404, `File not found; the current one is ${publicUrl}/docs/clients/${current}`)
}

async function sendClientFile(exchange: Exchange<OverviewDeps>): Promise<Reply> {
  await throttleAddress(exchange)
  const { incoming, deps } = exchange
  const file = exchange.c.req.param('file') ?? ''
  const isPackage = PACKAGE.test(file)
  const type = isPackage ? PACKAGE_TYPE : typeOf.get(file)
  if (deps.clientsFolder === undefined) throw new NotFound('File')
  const handle = type && (await openFile(join(deps.clientsFolder, file)))
  if (!handle) throw await missing(deps.publicUrl, deps.clientsFolder, file)
  let isSending = false
  try {
    // By content, not by time and size: an image may give all files one time, and checksums of two releases are of one size.
    const hash = createHash('sha256')
    let bytes = 0
    for await (const chunk of handle.createReadStream({ start: 0, autoClose: false }) as AsyncIterable<Buffer>) {
      hash.update(chunk)
      bytes += chunk.length
    }
    const tag = hash.digest('hex')
    const caching = {
      etag: quotedEtag(tag),
      'cache-control': isPackage ? 'public, max-age=31536000, immutable' : 'no-cache',
    }
    const held = header(incoming, 'if-none-match')
    if (held !== undefined && namesEtag(held, tag)) return { status: 304, headers: caching, body: null }
    const headers = { ...caching, 'content-type': type, 'content-length': String(bytes) }
    if (bytes === 0) return { status: 200, headers, body: null }
    isSending = true
    const content = Readable.toWeb(handle.createReadStream({ start: 0, end: bytes - 1 }))
    return { status: 200, headers, body: content as ReadableStream<Uint8Array> }
  } finally {
    if (!isSending) await handle.close()
  }
}

const text = { schema: z.string() }

export const clientEndpoints = [
  openEndpoint({
    operation: 'getClientFile',
    on: 'GET /docs/clients/{file}',
    tag: 'Reference',
    summary: 'Get a client to download',
    description:
      'Packages (`sdk-<version>-<hash>.tgz`) never change at their address; any other version is a 404 that names the current address. `checksums.txt` has the SHA-256 of each.',
    request: {
      params: z.object({
        file: z.string().openapi({ description: 'The name of the file.', example: 'sdk-0.20.0-1f0c9a2b.tgz' }),
      }),
    },
    responses: {
      200: {
        description: 'The file',
        content: {
          [PACKAGE_TYPE]: { schema: z.string().openapi({ format: 'binary', example: '…' }) },
          'text/javascript': text,
          'text/markdown': text,
          'text/plain': text,
        },
      },
      304: { description: 'Not modified: If-None-Match has the current ETag' },
    },
    fails: [404],
    run: sendClientFile,
  }),
]
