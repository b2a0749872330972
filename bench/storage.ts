import { createHash } from 'node:crypto'
import { ok, strictEqual } from 'node:assert/strict'
import { fileURLToPath } from 'node:url'
import type { Lab } from './lab.ts'
import { createSigner, type Credentials, payloadHashOf } from './sign-request.ts'

const s3rver = fileURLToPath(import.meta.resolve('./peers/s3rver-objects.ts'))
const bare = fileURLToPath(import.meta.resolve('./peers/bare-objects.ts'))
/** Those that s3rver comes with. */
const S3RVER: Credentials = { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' }
const BUCKET = 'bench'

/** A server that keeps objects, and how it is reached. */
export interface ObjectServer {
  name: string
  origin: string
  pid: number | undefined
  /** Of its bucket. */
  path: string
  credentials: Credentials
}

/** Bytes that do not compress, the same in each run, written as text. */
export function textOf(bytes: number): string {
  let made = ''
  for (let n = 0; made.length < bytes; n++) made += createHash('sha512').update(String(n)).digest('base64')
  return made.slice(0, bytes)
}

/** An application with a key that holds every storage scope, and a bucket. */
export async function openBucket(
  lab: Lab,
): Promise<ObjectServer & { pid: number; applicationId: string; bucketId: string }> {
  const platform = await lab.platform()
  const organization = await platform.call<{ id: string }>('POST', '/organizations', { name: 'Storage' })
  const application = await platform.call<{ id: string }>('POST', '/applications', {
    organizationId: organization.id,
    name: 'Storage',
  })
  const key = await platform.call<{ id: string; secret: string }>('POST', '/api-keys', {
    applicationId: application.id,
    name: 'Storage',
    scopes: ['network:storage:read', 'network:storage:write', 'network:storage:delete'],
  })
  const bucket = await platform.call<{ id: string }>(
    'POST',
    `/applications/${application.id}/environments/production/buckets`,
    { name: BUCKET },
  )
  return {
    name: 'ours',
    origin: platform.apiOrigin,
    pid: platform.apiPid,
    path: `/s3/${BUCKET}`,
    credentials: { accessKeyId: key.id, secretAccessKey: key.secret },
    applicationId: application.id,
    bucketId: bucket.id,
  }
}

/** s3rver, a server by hand, and radosgw where there is one. */
export async function startObjectServers(
  lab: Lab,
): Promise<{ s3rver: ObjectServer; bare: ObjectServer; radosgw: ObjectServer[] }> {
  const start = async (name: string, script: string): Promise<ObjectServer> => ({
    name,
    ...(await lab.startPeer(name, script, { folder: await lab.makeFolder(), bucket: BUCKET })),
    path: `/${BUCKET}`,
    credentials: S3RVER,
  })
  const peers = { s3rver: await start('s3rver', s3rver), bare: await start('bare', bare) }
  const { s3Url } = lab
  if (!s3Url) return { ...peers, radosgw: [] }
  const url = new URL(s3Url)
  const radosgw = {
    name: 'radosgw',
    origin: new URL(url.searchParams.get('endpoint') ?? '').origin,
    pid: undefined,
    path: `/${BUCKET}`,
    credentials: { accessKeyId: decodeURIComponent(url.username), secretAccessKey: decodeURIComponent(url.password) },
  }
  const made = await sendObject(radosgw, 'PUT', '')
  ok([200, 409].includes(made.status), `radosgw answers ${made.status} to the making of a bucket`)
  return { ...peers, radosgw: [radosgw] }
}

function sendObject({ origin, path, credentials }: ObjectServer, method: string, below: string, body?: string) {
  const sign = createSigner(credentials, new URL(origin).host)
  return fetch(`${origin}${path}${below}`, {
    method,
    headers: sign(method, path + below, payloadHashOf(body)),
    ...(body !== undefined && { body }),
  })
}

const AT_ONCE = 16

/** Puts the same bytes under as many keys: `{folder}/0` and on. */
export async function putObjects(server: ObjectServer, folder: string, count: number, body: string): Promise<void> {
  let n = 0
  const put = async () => {
    while (n < count) {
      const answer = await sendObject(server, 'PUT', `/${folder}/${n++}`, body)
      strictEqual(answer.status, 200, `${server.name}: ${await answer.text()}`)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, put))
}
