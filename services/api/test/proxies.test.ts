import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import {
  CreateBucketCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from '@aws-sdk/client-s3'
import { Upload as MultipartUpload } from '@aws-sdk/lib-storage'
import { freePort } from '@platform/testkit/free-port'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { Upload } from 'tus-js-client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { untilStatus } from '@platform/testing/service-process'
import { setQuota } from '../src/areas/tenancy/products/quotas.ts'
import { blobs } from '../src/areas/storage/objects/table.ts'
import { requireClientProgram, findClients } from './client-process.ts'
import { logOf, newDeployment, untilEnded } from './deployments.ts'
import { eventsIn } from './events.ts'
import { buildOutput, webSocketEcho } from './functions.ts'
import { bucketName, s3Client, storageScopes } from './s3.ts'
import { newKey, newOwner, type Owner, unique } from './scenario.ts'

const proxyFiles = resolve(import.meta.dirname, '../../../infra/proxy')
const read = (name: string) => readFile(join(proxyFiles, name), 'utf8')

/** Where a proxy listens, by what stands behind it. */
interface Proxy {
  api: string
  idp: string
  edge: string
  console: string
  stop(): Promise<void>
}
interface Kind {
  command: string
  version: string
  /** Ends it at once, whatever connections are open. */
  endsBy: 'SIGTERM' | 'SIGQUIT'
  /** Arguments that run the file of the repository with other addresses, in a folder of its own. */
  configure(folder: string, from: Record<Name, number>, to: Record<Name, number>): Promise<string[]>
}
type Name = 'api' | 'idp' | 'console' | 'edge'
/** In the order of the files. */
const names = ['api', 'idp', 'console', 'edge'] as const
const documented = { api: 4000, idp: 4001, console: 4003, edge: 4002 }

/** Replaces what has to be there. */
function replaced(text: string, from: string | RegExp, to: string): string {
  const done = text.replace(from, to)
  if (done === text) throw new Error(`The file has no ${String(from)}`)
  return done
}

const kinds: Kind[] = [
  {
    command: 'nginx',
    version: '-v',
    endsBy: 'SIGTERM',
    async configure(folder, from, to) {
      let file = await read('nginx.conf')
      for (const name of names) {
        file = replaced(file, `127.0.0.1:${documented[name]} `, `127.0.0.1:${to[name]} `)
        // The first one that is left.
        file = replaced(file, 'listen 443 ssl;', `listen 127.0.0.1:${from[name]};`)
      }
      file = file.replaceAll(/^ *ssl_certificate.*\n/gm, '')
      const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
        (name) => `${name}_temp_path ${folder}/${name};`,
      )
      await writeFile(join(folder, 'platform.conf'), file)
      await writeFile(
        join(folder, 'nginx.conf'),
        `daemon off; pid ${folder}/nginx.pid; error_log ${folder}/error.log; events {}
        http { access_log off; ${paths.join(' ')} include ${folder}/platform.conf; }`,
      )
      return ['-p', folder, '-c', join(folder, 'nginx.conf')]
    },
  },
  {
    command: 'caddy',
    version: 'version',
    endsBy: 'SIGQUIT',
    async configure(folder, from, to) {
      let file = await read('Caddyfile')
      for (const name of names) file = replaced(file, `127.0.0.1:${documented[name]} {`, `127.0.0.1:${to[name]} {`)
      file = replaced(file, /^api\.example\.com, .*\{/m, `http://:${from.api} {\n  bind 127.0.0.1`)
      file = replaced(file, /^id\.example\.com \{/m, `http://:${from.idp} {\n  bind 127.0.0.1`)
      file = replaced(file, /^console\.example\.com \{/m, `http://:${from.console} {\n  bind 127.0.0.1`)
      file = replaced(file, /^\*\.apps\.example\.net, .*\{/m, `http://:${from.edge} {\n  bind 127.0.0.1`)
      await writeFile(join(folder, 'Caddyfile'), `{\n  admin off\n}\n${file}`)
      return ['run', '--config', join(folder, 'Caddyfile'), '--adapter', 'caddyfile']
    },
  },
]

async function startProxy(kind: Kind, to: Record<Name, number>): Promise<Proxy> {
  const folder = await mkdtemp(join(tmpdir(), 'platform-proxy-'))
  const [api, idp, edge, ofConsole] = [await freePort(), await freePort(), await freePort(), await freePort()]
  const args = await kind.configure(folder, { api, idp, edge, console: ofConsole }, to)
  const child = spawn(kind.command, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
  const url = (port: number) => `http://127.0.0.1:${port}`
  const ended = once(child, 'exit').then(() => {
    throw new Error(`${kind.command} ended: ${said}`)
  })
  await untilStatus(`${url(api)}/.well-known/jwks.json`, 200, ended)
  ended.catch(() => {})
  return {
    api: url(api),
    idp: url(idp),
    edge: url(edge),
    console: url(ofConsole),
    async stop() {
      child.kill(kind.endsBy)
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

const portOf = (url: string): number => Number(new URL(url).port)
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

let platform: TestPlatform
let owner: Owner
let consoleFolder: string
beforeAll(async () => {
  consoleFolder = await mkdtemp(join(tmpdir(), 'platform-console-'))
  await writeFile(join(consoleFolder, 'index.html'), 'The console')
  platform = await startPlatform({ hasWorker: true, consoleFolder, env: { DEFAULT_PLAN: 'pro' } })
  owner = await newOwner(platform)
})
afterAll(async () => {
  await platform.close()
  await rm(consoleFolder, { recursive: true })
})

describe.each(kinds)('behind $command, as infra/proxy configures it,', (kind) => {
  let found: string[] = []
  let proxy: Proxy
  beforeAll(async () => {
    found = await findClients([kind.command], [kind.version])
    if (found.length === 0) return
    proxy = await startProxy(kind, {
      api: portOf(platform.apiUrl),
      idp: portOf(platform.idpUrl),
      edge: portOf(platform.edgeUrl),
      console: portOf(platform.consoleUrl),
    })
  })
  afterAll(() => proxy?.stop())

  test('S3 clients store and read whatever the key, the metadata and the size', async (context) => {
    requireClientProgram(context, kind.command, found)
    const key = await newKey(platform, owner, storageScopes)
    const client = s3Client({ url: `${proxy.api}/s3` }, key)
    const Bucket = bucketName()
    await client.send(new CreateBucketCommand({ Bucket }))
    const Key = "a b+c%~ü//(1)!*'/%2F;x=1&y?"
    const small = { Bucket, Key, Body: 'content', Metadata: { under_score: 'kept' } }
    await client.send(new PutObjectCommand(small))
    expect((await client.send(new HeadObjectCommand({ Bucket, Key }))).Metadata).toMatchObject({ under_score: 'kept' })
    const listed = await client.send(new ListObjectsV2Command({ Bucket, Prefix: 'a b+c%~ü//', Delimiter: ';' }))
    expect(listed.CommonPrefixes).toEqual([{ Prefix: "a b+c%~ü//(1)!*'/%2F;" }])

    const large = randomBytes(12 * 1_048_576)
    const params = { Bucket, Key: 'large', Body: Readable.from([large]) }
    await new MultipartUpload({ client, params, partSize: 5 * 1_048_576 }).done()
    const got = await client.send(new GetObjectCommand({ Bucket, Key: 'large' }))
    expect(sha256(await buffer(got.Body as Readable))).toBe(sha256(large))
    const removed = await client.send(
      new DeleteObjectsCommand({ Bucket, Delete: { Objects: [{ Key }, { Key: 'large' }] } }),
    )
    expect(removed.Deleted).toHaveLength(2)
  })

  test('tus uploads go on where they were broken off', async (context) => {
    requireClientProgram(context, kind.command, found)
    const name = `b-${unique()}`
    await platform.call(owner.token, `POST /applications/${owner.applicationId}/storage/buckets`, { name })
    const content = randomBytes(6 * 1_048_576)
    const begin = (more: object): Promise<string> =>
      new Promise((done, fail) => {
        const upload = new Upload(content, {
          endpoint: `${proxy.api}/files`,
          headers: { authorization: `Bearer ${owner.token}` },
          metadata: { applicationId: owner.applicationId, bucket: name, key: 'file' },
          chunkSize: 2 * 1_048_576,
          retryDelays: null,
          onSuccess: () => done(upload.url ?? ''),
          onError: fail,
          onChunkComplete(_, sent) {
            if (sent < content.length && !('uploadUrl' in more)) {
              void upload.abort()
              done(upload.url ?? '')
            }
          },
          ...more,
        })
        upload.start()
      })
    const broken = (await begin({})).replace(platform.apiUrl, proxy.api)
    const offset = await fetch(broken, { method: 'HEAD', headers: { 'tus-resumable': '1.0.0' } })
    expect(Number(offset.headers.get('upload-offset'))).toBeGreaterThanOrEqual(2 * 1_048_576)
    await begin({ uploadUrl: broken })
    const objects = `/applications/${owner.applicationId}/environments/production/buckets/${name}/objects`
    const { body } = await platform.call(owner.token, `GET ${objects}`)
    expect(body.items).toMatchObject([{ key: 'file', contentLength: content.length }])
  })

  test('an upload arrives while it is sent, and an event while its stream goes on', async (context) => {
    requireClientProgram(context, kind.command, found)
    const name = `b-${unique()}`
    await platform.call(owner.token, `POST /applications/${owner.applicationId}/storage/buckets`, { name })
    const begun = await fetch(`${proxy.api}/files`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${owner.token}`,
        'tus-resumable': '1.0.0',
        'upload-length': '3000000',
        'upload-metadata': Object.entries({ applicationId: owner.applicationId, bucket: name, key: 'slow' })
          .map(([member, value]) => `${member} ${Buffer.from(value).toString('base64')}`)
          .join(','),
      },
    })
    const { pathname } = new URL(begun.headers.get('location') ?? '')
    const sending = request(`${proxy.api}${pathname}`, {
      method: 'PATCH',
      headers: {
        'tus-resumable': '1.0.0',
        'upload-offset': '0',
        'content-type': 'application/offset+octet-stream',
        'content-length': '3000000',
      },
    })
    sending.on('error', () => {})
    sending.write(Buffer.alloc(1_000_000))
    // A proxy that buffers requests passes on none of it. Bytes that arrived have a blob, pending until the request is over.
    const pending = () => platform.api.db.select().from(blobs).where(eq(blobs.state, 'pending'))
    await expect.poll(pending).not.toEqual([])
    sending.destroy()
    const offset = async () => {
      const answer = await fetch(`${proxy.api}${pathname}`, { method: 'HEAD', headers: { 'tus-resumable': '1.0.0' } })
      return Number(answer.headers.get('upload-offset'))
    }
    await expect.poll(offset).toBeGreaterThan(0)

    const stream = await fetch(`${proxy.api}/applications/${owner.applicationId}/activity/stream`, {
      headers: { authorization: `Bearer ${owner.token}` },
    })
    const events = eventsIn(stream.body)
    const key = `KEY_${unique()}`
    await platform.call(owner.token, `POST /applications/${owner.applicationId}/env-vars`, { key, value: 'x' })
    const { value } = await events.next()
    expect(JSON.stringify(value)).toContain(key)
    await events.return(undefined)
  })

  test('sites are found by their host, stream, and speak WebSocket', async (context) => {
    requireClientProgram(context, kind.command, found)
    // One process, so that both requests reach the same one.
    await setQuota(platform.api, owner.organizationId, 'function_slots', 1)
    const code = webSocketEcho(`
      if (req.url === '/release') {
        globalThis.release()
        return res.end()
      }
      const released = new Promise((done) => { globalThis.release = done })
      res.write('first')
      await released
      res.end('second')`)
    const archive = buildOutput({ index: { code } }, { routes: [{ src: '/.*', dest: '/' }] })
    const { id } = await newDeployment(platform, owner, { archive })
    const deployment = await untilEnded(platform, id)
    if (deployment.status !== 'ACTIVE') throw new Error(`${deployment.failureReason}\n${await logOf(platform, id)}`)
    const host = `${deployment.label}.${platform.api.appsUrl.host}`
    const sent = request(`${proxy.edge}/`, { headers: { host } })
    sent.end()
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    const pieces = answer[Symbol.asyncIterator]() as AsyncIterableIterator<Buffer>
    expect([answer.statusCode, String((await pieces.next()).value)]).toEqual([200, 'first'])
    // 'second' is sent only after 'first' has arrived: a proxy that buffers answers would send neither.
    const release = request(`${proxy.edge}/release`, { headers: { host } })
    release.end()
    const [releasing] = (await once(release, 'response')) as [IncomingMessage]
    releasing.resume()
    expect(releasing.statusCode).toBe(200)
    expect(Buffer.concat(await Array.fromAsync(pieces)).toString()).toBe('second')

    const socket = new WebSocket(`${proxy.edge.replace('http', 'ws')}/chat`, { headers: { host } })
    await once(socket, 'open')
    socket.send('hello')
    expect(String((await once(socket, 'message'))[0])).toBe('hello')
    socket.close()
  })

  test('people sign in at the identity provider', async (context) => {
    requireClientProgram(context, kind.command, found)
    const discovery = await fetch(`${proxy.idp}/.well-known/openid-configuration`)
    expect(((await discovery.json()) as { issuer: string }).issuer).toBe(platform.idpUrl)
    const page = await fetch(`${proxy.idp}/sign-in`)
    expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=UTF-8'])
  })

  test('the console is shown at any of its addresses, with its own policy', async (context) => {
    requireClientProgram(context, kind.command, found)
    const page = await fetch(`${proxy.console}/an-organization/an-application`)
    expect([page.status, await page.text()]).toEqual([200, 'The console'])
    expect(page.headers.get('content-security-policy')).toContain("script-src 'self'")
  })
})
