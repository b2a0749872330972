import { readdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { ZipFile } from 'yazl'
import { type Ask, bearer, json } from './ask.ts'

export interface Deployment {
  id: string
  status: string
  url: string
  isCurrent: boolean
  failureReason: string | null
}

const POLL_MS = 100

/** The files of a folder as a zip. */
async function zipOf(folder: string): Promise<Uint8Array<ArrayBuffer>> {
  const zip = new ZipFile()
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isFile()) zip.addFile(path, relative(folder, path))
  }
  zip.end()
  return new Uint8Array(await buffer(zip.outputStream))
}

/**
 * Deploys the files of a folder as any client does: create, start, one part, complete, and wait for the end. Throws with the
 * reason where the deployment fails, and after 60 s.
 */
export async function deployFolder(
  ask: Ask,
  { baseUrl, token }: { baseUrl: string; token: string },
  applicationId: string,
  folder: string,
): Promise<Deployment> {
  const created = await ask<Deployment>(`${baseUrl}/deployments`, 201, json(token, { applicationId }))
  const path = `${baseUrl}/deployments/${created.id}`
  const { uploadId } = await ask<{ uploadId: string }>(`${path}/upload/start`, 200, bearer(token, 'POST'))
  const part = json(token, { uploadId, partNumber: 1 })
  const { url } = await ask<{ url: string }>(`${path}/upload/part`, 200, part)
  const sent = await fetch(url, {
    method: 'PUT',
    headers: { 'content-type': 'application/zip' },
    body: await zipOf(folder),
  })
  const etag = sent.headers.get('etag')
  if (!sent.ok || etag === null) throw new Error(`A part was answered with ${sent.status}: ${await sent.text()}`)
  const parts = [{ partNumber: 1, etag }]
  await ask(`${path}/upload/complete`, 204, json(token, { uploadId, parts }))
  for (const deadline = Date.now() + 60_000; Date.now() < deadline; await sleep(POLL_MS)) {
    const answer = await fetch(path, bearer(token))
    const deployment = (await answer.json()) as Deployment
    if (deployment.status === 'ACTIVE') return deployment
    if (deployment.status === 'FAILED') throw new Error(`The deployment failed: ${deployment.failureReason}`)
  }
  throw new Error(`The deployment ${created.id} was not ACTIVE within 60 s`)
}
