// engines: postgres
import { createHash, hash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib'
import { createLogger } from '@platform/runtime/logger'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { holding } from '@platform/testkit/holding'
import { eq, ne } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deploy, giveHostname, makeCurrent, visit } from '../../../../test/deploy.ts'
import { hurryHalfMinutes } from '../../../../test/hurry.ts'
import { newOwner, type Owner, unique } from '../../../../test/scenario.ts'
import { compressArtifacts, compressNewArtifacts } from '../../deploy/artifacts/compress-artifacts.ts'
import { artifactEncodings, artifacts } from '../../deploy/artifacts/table.ts'
import { deployments } from '../../deploy/deployments/table.ts'
import { blobs } from '../../storage/objects/table.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

/** Text that is unique to this call. */
const text = (bytes: number): string => `${unique()} `.repeat(Math.ceil(bytes / 13)).slice(0, bytes)

describe('what a hostname stands for', () => {
  test('a deployment answers at its own hostname, and at that of its environment once it is current', async () => {
    const owner = await newOwner(platform)
    const host = await giveHostname(platform, owner.applicationId)
    expect((await visit(platform, host)).headers['x-platform-error']).toBe('nothing_deployed')
    const first = await deploy(platform, owner, { files: { 'index.html': 'first' } })
    await expect.poll(async () => (await visit(platform, host)).text).toBe('first')
    const second = await deploy(platform, owner, { files: { 'index.html': 'second' }, isCurrent: false })
    expect((await visit(platform, host)).text).toBe('first')
    expect((await visit(platform, second.host)).text).toBe('second')
    await makeCurrent(platform, second)
    await expect.poll(async () => (await visit(platform, host)).text).toBe('second')
    expect((await visit(platform, first.host)).text).toBe('first')
  })

  test('the preview environment answers at a hostname of its own', async () => {
    const owner = await newOwner(platform)
    const [production, preview] = [
      await giveHostname(platform, owner.applicationId),
      await giveHostname(platform, owner.applicationId, 'BRANCH'),
    ]
    await deploy(platform, owner, { files: { 'index.html': 'preview' }, environment: 'preview' })
    await expect.poll(async () => (await visit(platform, preview)).text).toBe('preview')
    expect((await visit(platform, production)).status).toBe(404)
  })

  test.each(['PENDING', 'QUEUED', 'STARTING', 'BUILDING', 'PROVISIONING', 'FAILED'] as const)(
    'a deployment that is %s is a 404 page that names the status, and nobody keeps it',
    async (status) => {
      const { host } = await deploy(platform, ana, { status })
      const got = await visit(platform, host)
      expect([got.status, got.headers['cache-control']]).toEqual([404, 'no-store'])
      expect(got.text).toContain(status)
      const head = await visit(platform, host, '/', { method: 'HEAD' })
      expect([head.status, head.text, head.headers['content-length']]).toEqual([404, '', String(got.body.length)])
    },
  )

  test('a retired deployment is 410', async () => {
    const { id, host } = await deploy(platform, ana, { files: { 'index.html': 'old' } })
    expect((await visit(platform, host)).text).toBe('old')
    await platform.api.db.update(deployments).set({ retiredAt: new Date() }).where(eq(deployments.id, id))
    await expect.poll(async () => (await visit(platform, host)).status).toBe(410)
    expect((await visit(platform, host, '/', { method: 'HEAD' })).status).toBe(410)
  })
})

describe('files', () => {
  test('files are found by their names in either Unicode normal form, the exact one first', async () => {
    const [composed, decomposed] = ['café'.normalize('NFC'), 'café'.normalize('NFD')]
    const files = {
      'index.html': 'page',
      [`${decomposed}.html`]: 'one',
      [`${composed}.txt`]: 'two',
      [`${decomposed}.txt`]: 'three',
    }
    const { host } = await deploy(platform, ana, { files })
    const ask = async (path: string) => {
      const { status, text } = await visit(platform, host, encodeURI(path))
      return [status, text]
    }
    expect(await ask(`/${composed}`)).toEqual([200, 'one'])
    expect(await ask(`/${decomposed}`)).toEqual([200, 'one'])
    expect(await ask(`/${composed}.txt`)).toEqual([200, 'two'])
    expect(await ask(`/${decomposed}.txt`)).toEqual([200, 'three'])
    expect(await ask('/cafè.txt')).toEqual([404, expect.any(String)])
  })

  test('a page answers a request whose query has a number sign that is not encoded', async () => {
    const { host } = await deploy(platform, ana, { files: { 'index.html': 'page' } })
    expect(await visit(platform, host, '/?q=a#b')).toMatchObject({ status: 200, text: 'page' })
  })

  test('have caching headers and no others, and answer GET and HEAD alone', async () => {
    const { host } = await deploy(platform, ana, { files: { 'index.html': 'page', 'a.0a1b2c3d.js': 'script' } })
    const page = await visit(platform, host, '/', { headers: { origin: 'https://elsewhere.example.com' } })
    const { date, connection, 'keep-alive': keepAlive, ...headers } = page.headers
    expect([date, connection, keepAlive]).toEqual([expect.any(String), 'keep-alive', expect.any(String)])
    expect(headers).toEqual({
      'content-type': 'text/html; charset=utf-8',
      'content-length': '4',
      etag: `"${hash('sha256', 'page', 'base64url').slice(0, 22)}"`,
      'last-modified': expect.stringMatching(/GMT$/) as string,
      'cache-control': 'public, max-age=0, must-revalidate',
      'accept-ranges': 'bytes',
      'x-robots-tag': 'noindex',
    })
    const head = await visit(platform, host, '/', { method: 'HEAD' })
    expect([head.status, head.text, head.headers['content-length']]).toEqual([200, '', '4'])
    const script = await visit(platform, host, '/a.0a1b2c3d.js')
    expect(script.headers['cache-control']).toBe('public, max-age=31536000, immutable')
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']) {
      const got = await visit(platform, host, '/', { method, body: 'x', headers: { 'content-length': '1' } })
      expect([method, got.status, got.headers.allow]).toEqual([method, 405, 'GET, HEAD'])
      expect(got.headers).not.toHaveProperty('access-control-allow-origin')
    }
  })

  test('are sent as they are where a rule takes the name of their encoding away', async () => {
    const content = text(2_000)
    const { id, host } = await deploy(platform, ana, {
      files: { 'index.html': content, 'other.html': content },
      output: {
        site: { redirects: [], headers: [{ path: '/', set: [], unset: ['content-encoding'] }] },
      },
    })
    await compressArtifacts(platform.api, id)
    const get = (path: string) => visit(platform, host, path, { headers: { 'accept-encoding': 'br' } })
    const page = await get('/')
    expect([page.headers['content-encoding'], page.text]).toEqual([undefined, content])
    expect((await get('/other')).headers['content-encoding']).toBe('br')
  })

  test('have no body, nor its headers, behind a status that has none', async () => {
    const { host } = await deploy(platform, ana, {
      files: { 'a.html': 'page' },
      output: {
        kind: 'build-output',
        routes: [204, 205, 304].map((status) => ({ src: `/${status}`, dest: '/a.html', status })),
      },
    })
    for (const [status, length] of [
      [204, undefined],
      [205, '0'],
      [304, undefined],
    ] as const) {
      const got = await visit(platform, host, `/${status}`)
      expect([got.status, got.text, got.headers['content-length'], got.headers['content-type']]).toEqual([
        status,
        '',
        length,
        undefined,
      ])
    }
  })

  test('answer ranges and conditions (RFC 9110)', async () => {
    const { host } = await deploy(platform, ana, { files: { 'k.bin': '0123456789' } })
    const get = (headers: Record<string, string>, method = 'GET') =>
      visit(platform, host, '/k.bin', { headers, method })
    const { etag = '', 'last-modified': lastModified = '' } = (await get({})).headers
    const part = await get({ range: 'bytes=2-4' })
    expect([part.status, part.text, part.headers['content-range'], part.headers['content-length']]).toEqual([
      206,
      '234',
      'bytes 2-4/10',
      '3',
    ])
    expect((await get({ range: 'bytes=-3' })).text).toBe('789')
    expect((await get({ range: 'bytes=20-' })).headers['content-range']).toBe('bytes */10')
    expect((await get({ range: 'bytes=0-1,3-4' })).status).toBe(200)
    expect((await get({ range: 'bytes=2-4', 'if-range': '"other"' })).status).toBe(200)
    expect((await get({ range: 'bytes=2-4', 'if-range': etag })).status).toBe(206)
    const current = await get({ 'if-none-match': etag })
    expect([current.status, current.text, current.headers.etag]).toEqual([304, '', etag])
    expect(current.headers['cache-control']).toBe('public, max-age=0, must-revalidate')
    expect(current.headers).not.toHaveProperty('content-length')
    expect((await get({ 'if-none-match': etag }, 'HEAD')).status).toBe(304)
    expect((await get({ 'if-modified-since': lastModified })).status).toBe(304)
    expect((await get({ 'if-match': '"other"' })).status).toBe(412)
    expect((await get({ 'if-unmodified-since': new Date(0).toUTCString() })).status).toBe(412)
  })

  test.each([0, 1, 16_384, 16_385, 262_144, 262_145, 2_097_152, 2_097_153, 5_000_000])(
    'of %i bytes come whole, the second time too, and by ranges',
    async (bytes) => {
      const content = Buffer.from(text(bytes))
      const { host } = await deploy(platform, ana, {
        files: { f: { content, contentType: 'application/octet-stream' } },
      })
      for (let n = 0; n < 2; n++) {
        const got = await visit(platform, host, '/f')
        expect([got.status, got.body.equals(content), got.headers['content-length']]).toEqual([
          200,
          true,
          String(bytes),
        ])
      }
      if (bytes < 2) return
      const from = bytes >> 1
      const half = await visit(platform, host, '/f', { headers: { range: `bytes=${from}-` } })
      expect([half.status, half.body.equals(content.subarray(from))]).toEqual([206, true])
    },
  )

  test('that take their time are whole, though the request had a body that nobody reads', async () => {
    const owner = await newOwner(platform)
    const content = Buffer.alloc(30_000_000, 'a')
    const { host } = await deploy(platform, owner, {
      files: { 'large.bin': { content, contentType: 'application/octet-stream' } },
    })
    await hurryHalfMinutes(async (halfMinute) => {
      const { port } = new URL(platform.edgeUrl)
      const headers = { host, 'content-length': 1_000_000 }
      const sent = request({ port, host: 'localhost', path: '/large.bin', headers }).end(Buffer.alloc(1_000_000))
      const [answer] = (await once(sent, 'response')) as [IncomingMessage]
      await halfMinute()
      expect(Buffer.concat(await answer.toArray()).equals(content)).toBe(true)
    })
  })

  test('whose bytes the store does not give are a 502, not an answer that breaks off (D22)', async () => {
    const { host } = await deploy(platform, ana, { files: { 'big.bin': text(3_000_000), 'kept.bin': text(100_000) } })
    const rows = await platform.api.db.execute<{ id: string }>(
      'select id from blobs where content is null and length in (3000000, 100000)',
    )
    await platform.api.blobs.remove(rows.map(({ id }) => id))
    for (const path of ['/big.bin', '/kept.bin'])
      expect([path, (await visit(platform, host, path)).status]).toEqual([path, 502])
  })
})

describe('compressed beforehand', () => {
  const accepting = (host: string, path: string, encodings: string, more: Record<string, string> = {}) =>
    visit(platform, host, path, { headers: { 'accept-encoding': encodings, ...more } })

  test('text is sent in the encoding that its reader likes best, each with an entity tag of its own', async () => {
    const page = 'Some words that repeat. '.repeat(200)
    const { id, host } = await deploy(platform, ana, { files: { 'index.html': page, 'tiny.html': 'x' } })
    await compressArtifacts(platform.api, id)
    const [plain, br, gz] = [
      await visit(platform, host),
      await accepting(host, '/', 'gzip, deflate, br'),
      await accepting(host, '/', 'gzip'),
    ]
    expect([plain, br, gz].map(({ headers }) => [headers['content-encoding'], headers.vary])).toEqual([
      [undefined, 'Accept-Encoding'],
      ['br', 'Accept-Encoding'],
      ['gzip', 'Accept-Encoding'],
    ])
    expect([plain.text, brotliDecompressSync(br.body).toString(), gunzipSync(gz.body).toString()]).toEqual([
      page,
      page,
      page,
    ])
    expect(new Set([plain, br, gz].map(({ headers }) => headers.etag)).size).toBe(3)
    for (const got of [br, gz]) {
      expect(got.headers['content-length']).toBe(String(got.body.length))
      expect(got.headers).not.toHaveProperty('accept-ranges')
    }
    const tag = br.headers.etag ?? ''
    expect((await accepting(host, '/', 'br', { 'if-none-match': tag })).status).toBe(304)
    expect((await accepting(host, '/', 'gzip', { 'if-none-match': tag })).status).toBe(200)
    // Ranges apply to the uncompressed file.
    const part = await accepting(host, '/', 'br', { range: 'bytes=0-3' })
    expect([part.status, part.text, part.headers['content-encoding']]).toEqual([206, 'Some', undefined])
    expect((await accepting(host, '/', 'br', { range: 'bytes=0-3', 'if-range': tag })).status).toBe(200)
    const tiny = await accepting(host, '/tiny', 'br')
    expect([tiny.text, tiny.headers.vary, tiny.headers['content-encoding']]).toEqual(['x', undefined, undefined])
    const head = await visit(platform, host, '/', { method: 'HEAD', headers: { 'accept-encoding': 'br' } })
    expect([head.headers['content-length'], head.headers.etag]).toEqual([br.headers['content-length'], tag])
  })

  test('what does not shrink is sent as it is, and not tried again', async () => {
    const noise = randomBytes(3_000)
    const { id, host } = await deploy(platform, ana, {
      files: { 'n.js': { content: noise, contentType: 'text/javascript' } },
    })
    await compressArtifacts(platform.api, id)
    const got = await accepting(host, '/n.js', 'br, gzip')
    expect([got.headers['content-encoding'], got.body.equals(noise)]).toEqual([undefined, true])
    const sha256 = createHash('sha256').update(noise).digest()
    const rows = await platform.api.db.select().from(artifactEncodings).where(eq(artifactEncodings.sha256, sha256))
    expect(Object.fromEntries(rows.map(({ encoding, blobId }) => [encoding, blobId]))).toEqual({ br: null, gzip: null })
  })

  test('a header that names an encoding speaks of the file: it is not compressed once more', async () => {
    const content = gzipSync('x'.repeat(5_000), { level: 0 })
    const { id, host } = await deploy(platform, ana, {
      files: { 'game.js': { content, contentType: 'text/javascript' } },
      output: {
        site: { redirects: [], headers: [{ path: '/game.js', set: [['content-encoding', 'gzip']], unset: [] }] },
      },
    })
    await compressArtifacts(platform.api, id)
    const got = await accepting(host, '/game.js', 'br')
    expect([got.headers['content-encoding'], got.body.equals(content)]).toEqual(['gzip', true])
  })

  test('of two processes at the same file one stores what it made, and the other leaves nothing behind', async () => {
    const page = unique().repeat(9_000) + randomBytes(40_000).toString('hex')
    const { id } = await deploy(platform, ana, { files: { 'index.html': page } })
    const sha256 = createHash('sha256').update(page).digest()
    const warnings: unknown[] = []
    const logger = Object.assign(createLogger('test', 'silent'), { warn: (line: unknown) => void warnings.push(line) })
    const deps = { ...platform.api, logger }
    await holding(platform.databaseUrl, (held) => held`select 1 from artifacts where sha256 = ${sha256} for update`, [
      () => compressArtifacts(deps, id),
      () => compressArtifacts(deps, id),
    ])
    const rows = await platform.api.db
      .select({ encoding: artifactEncodings.encoding, blobId: artifactEncodings.blobId })
      .from(artifactEncodings)
      .where(eq(artifactEncodings.sha256, sha256))
    expect(rows).toHaveLength(2)
    const pending = await platform.api.db.select({ id: blobs.id }).from(blobs).where(ne(blobs.state, 'live'))
    expect([pending, warnings]).toEqual([[], []])
  })

  test('the worker finds what nobody compressed, and a file whose bytes are gone stops none of the others', async () => {
    const [lost, kept] = ['lost', 'kept'].map((word) => `${unique()} ${word} `.repeat(3_000))
    const { host } = await deploy(platform, ana, { files: { 'lost.html': lost ?? '', 'kept.html': kept ?? '' } })
    const [row] = await platform.api.db
      .select({ blobId: artifacts.blobId })
      .from(artifacts)
      .where(
        eq(
          artifacts.sha256,
          createHash('sha256')
            .update(lost ?? '')
            .digest(),
        ),
      )
    await platform.api.blobs.remove([row?.blobId ?? ''])
    await compressNewArtifacts(platform.api)
    expect((await accepting(host, '/kept', 'br')).headers['content-encoding']).toBe('br')
  })
})

describe('a file under a hashed name that a deployment does not have', () => {
  test('comes from one of the last ten, at every hostname of the environment, and is never a page', async () => {
    const owner = await newOwner(platform)
    const host = await giveHostname(platform, owner.applicationId)
    const chunk = (n: number) => `assets/chunk.0a1b2c3${n % 10}d${n}f.js`
    const sites = []
    for (let n = 0; n < 12; n++)
      sites.push(
        await deploy(platform, owner, {
          files: { 'index.html': `page ${n}`, '404.html': 'none', [chunk(n)]: `chunk ${n}` },
        }),
      )
    const last = sites.at(-1)?.host ?? ''
    await expect.poll(async () => (await visit(platform, host)).text).toBe('page 11')
    for (const text of [host, last]) {
      for (const n of [11, 10, 2]) {
        const got = await visit(platform, text, `/${chunk(n)}`)
        expect([got.status, got.text, got.headers['cache-control']]).toEqual([
          200,
          `chunk ${n}`,
          'public, max-age=31536000, immutable',
        ])
      }
      const gone = await visit(platform, text, `/${chunk(1)}`)
      expect([gone.status, gone.headers['cache-control'], gone.text.includes('page')]).toEqual([404, 'no-store', true])
      expect(gone.text).not.toContain('page 11')
    }
    // A name without a hash is only looked for in the current deployment.
    const missing = await visit(platform, host, '/other')
    expect([missing.status, missing.text, missing.headers['cache-control']]).toEqual([
      404,
      'none',
      'public, max-age=0, must-revalidate',
    ])
  })

  test('is not looked for in another environment, nor in deployments whose files are gone', async () => {
    const owner = await newOwner(platform)
    const path = `assets/chunk.${randomBytes(4).toString('hex')}a1.js`
    const preview = await deploy(platform, owner, { files: { [path]: 'preview' }, environment: 'preview' })
    const removed = await deploy(platform, owner, { files: { [path]: 'removed' } })
    await platform.api.db.update(deployments).set({ filesRemovedAt: new Date() }).where(eq(deployments.id, removed.id))
    const failed = await deploy(platform, owner, { files: { [path]: 'failed' } })
    await platform.api.db.update(deployments).set({ status: 'FAILED' }).where(eq(deployments.id, failed.id))
    const { host } = await deploy(platform, owner, { files: { 'index.html': 'x' } })
    expect((await visit(platform, host, `/${path}`)).status).toBe(404)
    expect((await visit(platform, preview.host, `/${path}`)).text).toBe('preview')
  })

  test('that nobody has is asked for once, however often it is wanted', async () => {
    const { host } = await deploy(platform, ana, { files: { 'index.html': 'x' } })
    const path = `/assets/chunk.${randomBytes(4).toString('hex')}a1.js`
    expect((await visit(platform, host, path)).status).toBe(404)
    // Without the table, an answer can only come from memory.
    await platform.api.db.execute('alter table deployment_files rename to deployment_files_away')
    try {
      for (let n = 0; n < 20; n++) expect((await visit(platform, host, path)).status).toBe(404)
      expect((await visit(platform, host, `/assets/chunk.${randomBytes(4).toString('hex')}a2.js`)).status).toBe(500)
    } finally {
      await platform.api.db.execute('alter table deployment_files_away rename to deployment_files')
    }
  })
})
