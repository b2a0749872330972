import { createHash, createHmac, hash } from 'node:crypto'

/** Of an S3 server. */
export interface Credentials {
  accessKeyId: string
  secretAccessKey: string
}

const REGION = 'local'
const SIGNED_HEADERS = 'host;x-amz-content-sha256;x-amz-date'
const EMPTY_SHA256 = hash('sha256', '')

const hmac = (key: Buffer | string, message: string): Buffer => createHmac('sha256', key).update(message).digest()

/** The hexadecimal SHA-256 that a signature covers; undefined: of no body. */
export const payloadHashOf = (body: string | undefined): string =>
  body === undefined ? EMPTY_SHA256 : createHash('sha256').update(body).digest('hex')

/**
 * Gives what signs requests by SigV4 in their headers, with the signing key of today.
 * path: with its query, whose parameters stand in order and are percent-encoded.
 */
export function createSigner(
  { accessKeyId, secretAccessKey }: Credentials,
  host: string,
): (method: string, path: string, payloadHash: string) => Record<string, string> {
  const timestamp = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, '')
  const day = timestamp.slice(0, 8)
  const scope = `${day}/${REGION}/s3/aws4_request`
  const key = hmac(hmac(hmac(hmac(`AWS4${secretAccessKey}`, day), REGION), 's3'), 'aws4_request')
  return (method, path, payloadHash) => {
    const [pathname = '', query = ''] = path.split('?', 2)
    const canonical = `${method}\n${pathname}\n${query}\nhost:${host}\nx-amz-content-sha256:${payloadHash}\nx-amz-date:${timestamp}\n\n${SIGNED_HEADERS}\n${payloadHash}`
    const toSign = `AWS4-HMAC-SHA256\n${timestamp}\n${scope}\n${hash('sha256', canonical)}`
    const signature = hmac(key, toSign).toString('hex')
    return {
      'x-amz-date': timestamp,
      'x-amz-content-sha256': payloadHash,
      authorization: `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope}, SignedHeaders=${SIGNED_HEADERS}, Signature=${signature}`,
    }
  }
}
