import { Forbidden, NotFound } from '@platform/errors/api-error'
import { isLowerCaseUuid } from '@platform/runtime/is-uuid'
import type { DeployDeps } from '../deps.ts'
import { requireGivenOnce } from '../../../http/validate.ts'

/** Path that parts of archives are uploaded to. Below /files, whose rate limit it shares (D80). */
const PARTS_PATH = '/files/deployments/'
const LIFETIME_SECONDS = 3_600
export const PART_NUMBER_MAX = 10_000

const messageOf = (uploadId: string, partNumber: number, expires: number): string =>
  JSON.stringify([uploadId, partNumber, expires])

/** The URL to upload one part to, valid for an hour. The URL itself is the credential (D12, D80). */
export function partUrlOf(
  { publicUrl, partSigner, now }: Pick<DeployDeps, 'publicUrl' | 'partSigner' | 'now'>,
  uploadId: string,
  partNumber: number,
): string {
  const expires = Math.floor(now().getTime() / 1_000) + LIFETIME_SECONDS
  const signature = partSigner.sign(messageOf(uploadId, partNumber, expires))
  return `${publicUrl}${PARTS_PATH}${uploadId}/${partNumber}?expires=${expires}&signature=${encodeURIComponent(signature)}`
}

/**
 * Verifies the URL of a part and returns what it names. Throws NotFound if it is malformed, ValidationFailed if it gives a
 * parameter twice, Forbidden if its signature is wrong or expired.
 */
export function readPartUrl(
  { partSigner, now }: Pick<DeployDeps, 'partSigner' | 'now'>,
  url: string,
): { uploadId: string; partNumber: number } {
  const [path = '', query = ''] = url.split('?', 2)
  const [uploadId = '', number = '', ...more] = path.slice(PARTS_PATH.length).split('/')
  const partNumber = /^[1-9]\d{0,4}$/.test(number) ? Number(number) : 0
  if (!isLowerCaseUuid(uploadId) || partNumber < 1 || partNumber > PART_NUMBER_MAX || more.length > 0)
    throw new NotFound('Upload')
  const parameters = new URLSearchParams(query)
  requireGivenOnce(['expires', 'signature'], (name) => parameters.getAll(name))
  const expires = Number(parameters.get('expires'))
  if (!partSigner.verify(messageOf(uploadId, partNumber, expires), parameters.get('signature') ?? ''))
    throw new Forbidden('The signature of the URL does not match it')
  if (expires * 1_000 <= now().getTime()) throw new Forbidden('The URL has expired; ask for a new one')
  return { uploadId, partNumber }
}
