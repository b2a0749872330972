import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { inject } from 'vitest'
import './test-servers.ts'

/**
 * Chooses a fresh place for objects: a bucket of the run's S3 server if there is one (`TEST_S3_URL`), else a folder. The
 * first writer creates the bucket. kind: 'folder' for tests that look at files.
 */
export async function newObjectsUrl(kind?: 'folder'): Promise<{ url: string; remove(): Promise<void> }> {
  const { s3Url } = inject('testServers')
  if (s3Url !== undefined && kind !== 'folder') {
    const url = new URL(s3Url)
    url.hostname = `test-${randomBytes(8).toString('hex')}`
    return { url: url.href, remove: async () => {} }
  }
  const folder = await mkdtemp(join(tmpdir(), 'platform-objects-'))
  return { url: pathToFileURL(folder).href, remove: () => rm(folder, { recursive: true, force: true }) }
}
