import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { strictEqual } from 'node:assert/strict'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import type { Lab } from '../lab.ts'
import { textOf } from '../storage.ts'
import type { Suite } from '../suite.ts'

const nginx = fileURLToPath(import.meta.resolve('../peers/nginx.ts'))
const FILE = 'app.0a1b2c3d4e5f.bin'
const output = {
  version: 1,
  kind: 'static',
  routes: [],
  wildcard: [],
  site: { redirects: [], headers: [] },
  functions: {},
}

/** Leaves behind what the worker does of a deployment with one file; answers its hostname without the port. */
async function deployFile(lab: Lab, content: Buffer): Promise<string> {
  const platform = await lab.platform()
  const organization = await platform.call<{ id: string }>('POST', '/organizations', {
    name: `Static ${randomBytes(4).toString('hex')}`,
  })
  const { id: applicationId } = await platform.call<{ id: string }>('POST', '/applications', {
    organizationId: organization.id,
    name: 'Static',
  })
  const sql = postgres(lab.databaseUrl, { max: 1, onnotice: () => {} })
  try {
    const [id, blobId, sha256] = [randomUUID(), randomUUID(), createHash('sha256').update(content).digest()]
    const label = `bench-${randomBytes(4).toString('hex')}`
    await sql`insert into blobs (id, state, length, crc32, content, created_at)
      values (${blobId}, 'live', ${content.length}, 0, ${content}, now())`
    await sql`insert into artifacts values (${sha256}, ${blobId}, ${content.length}, now())`
    await sql`insert into deployments (id, organization_id, application_id, environment_id, seq, status, label, created_by, output,
        activated_at, created_at, updated_at)
      select ${id}, ${organization.id}, ${applicationId}, id, 1, 'ACTIVE', ${label}, '{}', ${sql.json(output)}, now(), now(), now()
      from environments where application_id = ${applicationId} and slug = 'production'`
    await sql`insert into deployment_files values (${id}, ${FILE}, ${sha256}, ${content.length}, 'application/octet-stream')`
    await sql`insert into hostnames (id, application_id, type, label, source, deployment_id, created_at)
      values (${randomUUID()}, ${applicationId}, 'DEPLOYMENT', ${label}, 'system', ${id}, now())`
    return `${label}.localhost`
  } finally {
    await sql.end()
  }
}

const suiteOf = (name: string, bytes: number, connections: number, cpuRatioMax: number): Suite => ({
  name,
  work: `GET of a file of ${bytes} bytes at the hostname of a deployment, logged`,
  async prepare(lab) {
    const text = textOf(bytes)
    const host = await deployFile(lab, Buffer.from(text))
    const folder = await lab.makeFolder()
    await mkdir(join(folder, 'site'))
    await writeFile(join(folder, 'site', FILE), text)
    const platform = await lab.platform()
    const peer = await lab.startPeer('nginx', nginx, { folder })
    return {
      load: { method: 'GET', path: `/${FILE}`, headers: async () => ({ host }), addressBlock: 60, connections },
      ours: { name: 'ours', origin: platform.edgeOrigin, pid: platform.apiPid },
      // Requests a second and core: nginx sends files from the kernel, and its log is a line of a file.
      peers: [{ name: 'nginx', ...peer, aim: { cpuRatioMax } }],
      async check(server, answer) {
        strictEqual(await answer.text(), text, server)
        strictEqual(answer.headers.get('cache-control'), 'public, max-age=31536000, immutable', server)
      },
    }
  },
})

export const staticSmall: Suite = suiteOf('static-4k', 4_096, 64, 3.3)
export const staticLarge: Suite = suiteOf('static-1m', 1_048_576, 16, 2)
