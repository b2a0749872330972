import type { RawTarget } from '../wire/raw-target.ts'

/** Parameters of a presigned URL that belong to its signature or, like a presigner's CRC of an empty body, mean nothing. */
const isNotHoisted = (name: string): boolean =>
  name.startsWith('x-amz-checksum-') ||
  [
    'x-amz-algorithm',
    'x-amz-credential',
    'x-amz-date',
    'x-amz-expires',
    'x-amz-signedheaders',
    'x-amz-signature',
    'x-amz-security-token',
    'x-amz-content-sha256',
    'x-amz-sdk-checksum-algorithm',
  ].includes(name)

/** Returns a request's headers plus those that a presigner moved into the query, where they mean the same. */
export function withHoistedHeaders(
  headers: ReadonlyMap<string, string>,
  { parameters, query }: RawTarget,
): ReadonlyMap<string, string> {
  if (!query.has('X-Amz-Signature')) return headers
  const all = new Map(headers)
  for (const { name, value } of parameters) {
    const lower = name.toLowerCase()
    if (lower.startsWith('x-amz-') && !isNotHoisted(lower) && !all.has(lower))
      all.set(lower, Buffer.from(value).toString('latin1'))
  }
  return all
}
