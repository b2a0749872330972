import { hash } from 'node:crypto'
import { readBodyClaim, readRequestBody } from '@platform/s3-protocol/body/read-request-body'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { bodyOf } from '../../../http/raw-listener.ts'
import type { S3Call } from './s3-call.ts'

/**
 * Reads a whole body, such as an XML document, and verifies it. Throws MaxMessageLengthExceeded beyond `bytesMax`, and the errors
 * of `readBodyClaim`, `readRequestBody` and `verify`.
 */
export async function readSmallBody(call: S3Call, bytesMax: number): Promise<Buffer> {
  const claim = readBodyClaim(call.headers, call.payloadHash)
  if (claim.length > bytesMax) throw s3Failure('MaxMessageLengthExceeded')
  const body = await readRequestBody(bodyOf(call.exchange), claim, call.seed)
  const chunks: Buffer[] = []
  call.exchange.isWorking = false
  for await (const chunk of body.bytes) chunks.push(chunk)
  call.exchange.isWorking = true
  const bytes = Buffer.concat(chunks)
  body.verify({ md5: hash('md5', bytes, 'buffer'), sha256: hash('sha256', bytes, 'buffer'), length: bytes.length })
  return bytes
}
