import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open, rename, rm, stat } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { readSettings } from './settings.ts'

// Objects as files, as one would write it by hand for speed: no database, no signature, no limit. A PUT is hashed on its way,
// held against its declared hash and synced before it gets its name; a GET is the file. docs/performance.md says what is left
// out.

const { port, folder } = readSettings('folder')
const READ_AT_ONCE = 65_536
const known = new Set<string>()

async function put(req: IncomingMessage, res: ServerResponse, path: string): Promise<void> {
  const md5 = createHash('md5')
  const sha256 = createHash('sha256')
  const temporary = join(folder, randomUUID())
  const file = await open(temporary, 'wx', 0o600)
  try {
    for await (const chunk of req as AsyncIterable<Buffer>) {
      md5.update(chunk)
      sha256.update(chunk)
      await file.write(chunk)
    }
    const promised = req.headers['x-amz-content-sha256']
    if (promised !== sha256.digest('hex')) {
      res.writeHead(400).end()
      return
    }
    await file.datasync()
  } finally {
    await file.close()
  }
  const parent = dirname(path)
  if (!known.has(parent)) {
    await mkdir(parent, { recursive: true })
    known.add(parent)
  }
  await rename(temporary, path)
  res.writeHead(200, { etag: `"${md5.digest('hex')}"`, 'content-length': 0 }).end()
}

async function get(res: ServerResponse, path: string): Promise<void> {
  const { size, mtime } = await stat(path)
  res.writeHead(200, {
    'content-type': 'application/octet-stream',
    'content-length': size,
    'last-modified': mtime.toUTCString(),
  })
  await pipeline(createReadStream(path, { highWaterMark: READ_AT_ONCE }), res)
}

async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const path = join(folder, 'objects', req.url ?? '')
  await (req.method === 'PUT' ? put(req, res, path) : get(res, path))
}

await rm(join(folder, 'objects'), { recursive: true, force: true })
createServer((req, res) => {
  handle(req, res).catch(() => (res.headersSent ? res.destroy() : res.writeHead(404).end()))
}).listen(port, '127.0.0.1')
