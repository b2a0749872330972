import { createHash, randomBytes, randomUUID } from 'node:crypto'
import type { OutputManifest } from '@platform/build-output/manifest'
import postgres from 'postgres'
import type { Lab } from './lab.ts'

/** A file of a deployment, by its path. */
export interface BenchFile {
  path: string
  content: Buffer
  contentType: string
}

const plain: OutputManifest = {
  version: 1,
  kind: 'static',
  routes: [],
  wildcard: [],
  site: { redirects: [], headers: [] },
  functions: {},
}

/**
 * Leaves behind what the worker does of a deployment with these files; answers its hostname without the port. more: what its manifest
 * has besides.
 */
export async function deployFiles(
  lab: Lab,
  files: readonly BenchFile[],
  more: Partial<OutputManifest> = {},
): Promise<string> {
  // Through JSON, as it is stored.
  const output: postgres.JSONValue = JSON.parse(JSON.stringify({ ...plain, ...more }))
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
    const id = randomUUID()
    const label = `bench-${randomBytes(4).toString('hex')}`
    await sql`insert into deployments (id, organization_id, application_id, environment_id, seq, status, label, created_by, output,
        activated_at, created_at, updated_at)
      select ${id}, ${organization.id}, ${applicationId}, id, 1, 'ACTIVE', ${label}, '{}', ${sql.json(output)}, now(), now(), now()
      from environments where application_id = ${applicationId} and slug = 'production'`
    const hashes = new Map<Buffer, Buffer>()
    for (const content of new Set(files.map((file) => file.content))) {
      const [blobId, sha256] = [randomUUID(), createHash('sha256').update(content).digest()]
      hashes.set(content, sha256)
      await sql`insert into blobs (id, state, length, crc32, content, created_at)
        values (${blobId}, 'live', ${content.length}, 0, ${content}, now())`
      await sql`insert into artifacts values (${sha256}, ${blobId}, ${content.length}, now()) on conflict do nothing`
    }
    for (const { path, content, contentType } of files) {
      const sha256 = hashes.get(content) ?? null
      await sql`insert into deployment_files values (${id}, ${path}, ${sha256}, ${content.length}, ${contentType})`
    }
    await sql`insert into hostnames (id, application_id, type, label, source, deployment_id, created_at)
      values (${randomUUID()}, ${applicationId}, 'DEPLOYMENT', ${label}, 'system', ${id}, now())`
    return `${label}.localhost`
  } finally {
    await sql.end()
  }
}
