import { fileURLToPath } from 'node:url'
import { ConfigError } from '@platform/runtime/config'
import type { Blobs } from '../objects/blobs.ts'
import { openFolder, writeTrial } from './folder.ts'

/** Why a folder that is the right one cannot be written for a while: it is full, its server or disk is away, too much is open. */
const passing = new Set(['ENOSPC', 'EDQUOT', 'EIO', 'ESTALE', 'ETIMEDOUT', 'EMFILE', 'ENFILE'])

/** Throws ConfigError if OBJECTS_URL is a folder that cannot be written for a reason that does not pass by itself. */
export async function requireWritableFolder(url: string): Promise<void> {
  if (!url.startsWith('file:')) return
  try {
    await writeTrial(fileURLToPath(url))
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (passing.has(code)) return
    const reason = code === 'ENOTDIR' ? 'a file, not a folder' : `a folder that this process cannot write to (${code})`
    throw new ConfigError(
      `OBJECTS_URL names ${reason}: expected one that it may write to, such as file:///var/lib/platform/objects`,
    )
  }
}

/**
 * Opens the blob driver named by a URL: `file:///folder`, or
 * `s3://[accessKeyId:secretAccessKey@]bucket?endpoint=https://…&region=…`
 * for an S3-compatible server. If the URL has no credentials, the AWS SDK uses its default credential chain.
 */
export async function openBlobs(url: string): Promise<Blobs> {
  const parsed = new URL(url)
  if (parsed.protocol === 'file:') return openFolder(fileURLToPath(parsed))
  const { hostname, username, password, searchParams } = parsed
  const endpoint = searchParams.get('endpoint') ?? undefined
  if (hostname === '' || (endpoint !== undefined && !/^https?:\/\/[^/]/.test(endpoint)))
    throw new ConfigError('OBJECTS_URL is not valid: expected s3://bucket?endpoint=https://s3.example.com')
  // Loaded only if used: the client needs 30 MB.
  const { openS3 } = await import('./s3.ts')
  return openS3({
    bucket: hostname,
    endpoint,
    region: searchParams.get('region') ?? 'us-east-1',
    credentials:
      username === ''
        ? undefined
        : { accessKeyId: decodeURIComponent(username), secretAccessKey: decodeURIComponent(password) },
  })
}
