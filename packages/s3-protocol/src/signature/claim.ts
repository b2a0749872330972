import type { RawTarget } from '../wire/raw-target.ts'
import { s3Failure } from '../wire/s3-failure.ts'

const ALGORITHM = 'AWS4-HMAC-SHA256'
const EXPIRES_MAX_SECONDS = 604_800

/** The signature claimed by a request; nothing of it is verified. */
export interface SignatureClaim {
  /** The access key id. */
  keyId: string
  /** `YYYYMMDD` of the scope. */
  day: string
  region: string
  /** `YYYYMMDDTHHMMSSZ`, as signed. */
  timestamp: string
  signedAt: Date
  /** In lower case, in signing order. */
  signedHeaders: readonly string[]
  /** 64 hexadecimal digits. */
  signature: string
  /** Header or presigned URL; a URL says how long it is valid. */
  place: { kind: 'header' } | { kind: 'query'; expiresInSeconds: number }
}

type S3AuthFailure = 'AuthorizationHeaderMalformed' | 'AuthorizationQueryParametersError'

const SIGV2 = 'Signature version 2 is not supported; use AWS4-HMAC-SHA256 (in boto3: Config(signature_version="s3v4"))'

/** Reads `20130524T000000Z`; undefined for anything else, including dates that do not exist. */
function readTimestamp(text: string): Date | undefined {
  const parts = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(text)
  if (!parts) return undefined
  const [, year, month, day, hour, minute, second] = parts
  const time = new Date(`${year}-${month}-${day}T${hour}:${minute}:${second}.000Z`)
  return Number.isNaN(time.getTime()) || time.getUTCDate() !== Number(day) ? undefined : time
}

const pad = (value: number): string => String(value).padStart(2, '0')

/** Formats a time for SigV4. */
export const amzTimestamp = (time: Date): string =>
  `${time.getUTCFullYear()}${pad(time.getUTCMonth() + 1)}${pad(time.getUTCDate())}T${pad(time.getUTCHours())}${pad(time.getUTCMinutes())}${pad(time.getUTCSeconds())}Z`

export interface CredentialScope {
  keyId: string
  day: string
  region: string
}

/** Reads `keyId/day/region/s3/aws4_request`. Any region is accepted. */
function readCredential(credential: string, failure: S3AuthFailure): CredentialScope {
  const parts = credential.split('/')
  const [keyId = '', day = '', region = '', service, end] = parts
  if (parts.length !== 5 || end !== 'aws4_request')
    throw s3Failure(failure, 'The credential must be <key id>/<yyyymmdd>/<region>/s3/aws4_request')
  if (service !== 's3') throw s3Failure(failure, 'The service of the credential must be s3')
  if (!/^\d{8}$/.test(day) || region === '') throw s3Failure(failure, 'The credential lacks a date or a region')
  return { keyId, day, region }
}

function readSignedHeaders(list: string, failure: S3AuthFailure): string[] {
  const names = list.split(';')
  if (!names.every((name) => /^[a-z0-9!#$%&'*+.^_`|~-]+$/.test(name)))
    throw s3Failure(failure, 'The signed headers must be names in lower case with semicolons between them')
  return names
}

function readSignature(signature: string, failure: S3AuthFailure): string {
  if (!/^[0-9a-f]{64}$/.test(signature)) throw s3Failure(failure, 'The signature must be 64 hexadecimal digits')
  return signature
}

/** Reads the time of a request signed by header: x-amz-date, else Date, which must then be signed. */
function readHeaderDate(
  headers: ReadonlyMap<string, string>,
  signedHeaders: readonly string[],
): { timestamp: string; signedAt: Date } {
  const timestamp = headers.get('x-amz-date')
  if (timestamp !== undefined) {
    const signedAt = readTimestamp(timestamp)
    if (!signedAt) throw s3Failure('AccessDenied', 'x-amz-date must be a time such as 20260131T235959Z')
    return { timestamp, signedAt }
  }
  const date = headers.get('date')
  const signedAt = new Date(date ?? '')
  if (date === undefined || Number.isNaN(signedAt.getTime()) || !signedHeaders.includes('date'))
    throw s3Failure('AccessDenied', 'A signed request needs a valid and signed x-amz-date or Date header')
  return { timestamp: amzTimestamp(signedAt), signedAt }
}

function readHeaderClaim(authorization: string, headers: ReadonlyMap<string, string>): SignatureClaim {
  const failure = 'AuthorizationHeaderMalformed'
  const fields = new Map<string, string>()
  for (const field of authorization.slice(ALGORITHM.length).split(',')) {
    const index = field.indexOf('=')
    if (index > 0) fields.set(field.slice(0, index).trim(), field.slice(index + 1).trim())
  }
  const [credential, list, signature] = ['Credential', 'SignedHeaders', 'Signature'].map((name) => fields.get(name))
  if (credential === undefined || list === undefined || signature === undefined)
    throw s3Failure(failure, 'The authorization header must hold Credential, SignedHeaders and Signature')
  const scope = readCredential(credential, failure)
  const signedHeaders = readSignedHeaders(list, failure)
  const { timestamp, signedAt } = readHeaderDate(headers, signedHeaders)
  if (timestamp.slice(0, 8) !== scope.day)
    throw s3Failure(failure, 'The date of the credential is not the date of the request')
  return {
    ...scope,
    timestamp,
    signedAt,
    signedHeaders,
    signature: readSignature(signature, failure),
    place: { kind: 'header' },
  }
}

function readQueryClaim({ query }: RawTarget): SignatureClaim {
  const failure = 'AuthorizationQueryParametersError'
  const get = (name: string): string => {
    const value = query.get(name)
    if (value === undefined || value === '') throw s3Failure(failure, `${name} is missing from the query`)
    return value
  }
  if (get('X-Amz-Algorithm') !== ALGORITHM) throw s3Failure(failure, `X-Amz-Algorithm must be ${ALGORITHM}`)
  const scope = readCredential(get('X-Amz-Credential'), failure)
  const timestamp = get('X-Amz-Date')
  const signedAt = readTimestamp(timestamp)
  if (!signedAt) throw s3Failure(failure, 'X-Amz-Date must be a time such as 20260131T235959Z')
  if (timestamp.slice(0, 8) !== scope.day)
    throw s3Failure(failure, 'The date of the credential is not that of X-Amz-Date')
  const expires = get('X-Amz-Expires')
  const expiresInSeconds = Number(expires)
  if (!/^\d{1,10}$/.test(expires) || expiresInSeconds < 1 || expiresInSeconds > EXPIRES_MAX_SECONDS)
    throw s3Failure(failure, `X-Amz-Expires must be between 1 and ${EXPIRES_MAX_SECONDS} seconds`)
  return {
    ...scope,
    timestamp,
    signedAt,
    signedHeaders: readSignedHeaders(get('X-Amz-SignedHeaders'), failure),
    signature: readSignature(get('X-Amz-Signature'), failure),
    place: { kind: 'query', expiresInSeconds },
  }
}

/** The signature claimed by a form for its policy. */
export interface FormClaim extends CredentialScope {
  signature: string
}

/**
 * Reads the claim of a form (S3 API POST object). fields: by name in lower case.
 * Throws InvalidArgument for a missing or wrong field, AccessDenied for signature version 2 and for another day than the
 * credential's, AuthorizationHeaderMalformed.
 */
export function readFormClaim(fields: ReadonlyMap<string, string>): FormClaim {
  if (fields.has('signature') && !fields.has('x-amz-signature')) throw s3Failure('AccessDenied', SIGV2)
  const get = (name: string): string => {
    const value = fields.get(name)
    if (value === undefined)
      throw s3Failure('InvalidArgument', `The form lacks the field ${name}, which must stand before the file`)
    return value
  }
  if (get('x-amz-algorithm') !== ALGORITHM) throw s3Failure('InvalidArgument', `x-amz-algorithm must be ${ALGORITHM}`)
  const scope = readCredential(get('x-amz-credential'), 'AuthorizationHeaderMalformed')
  if (!get('x-amz-date').startsWith(scope.day))
    throw s3Failure('AccessDenied', 'The date of the credential is not that of x-amz-date')
  return { ...scope, signature: get('x-amz-signature') }
}

/** The claimed identity of a request; nothing of it is verified. */
export type AuthClaim =
  | { kind: 'anonymous' }
  | { kind: 'bearer'; token: string }
  | { kind: 'signature'; claim: SignatureClaim }

/**
 * Reads the claim from Authorization or the query (SigV4 "Authenticating requests"). Rejects signature version 2 with a message
 * that says so, and a request that signs in both places.
 *
 * Throws AuthorizationHeaderMalformed, AuthorizationQueryParametersError, InvalidRequest, AccessDenied, InvalidArgument.
 */
export function readAuthClaim(target: RawTarget, headers: ReadonlyMap<string, string>): AuthClaim {
  const { query } = target
  const authorization = headers.get('authorization')?.trim()
  const isPresigned = query.has('X-Amz-Algorithm') || query.has('X-Amz-Signature') || query.has('X-Amz-Credential')
  if (authorization !== undefined && isPresigned)
    throw s3Failure('InvalidArgument', 'Only one way to authenticate is allowed: the header or the query')
  if (isPresigned) return { kind: 'signature', claim: readQueryClaim(target) }
  if (authorization === undefined) {
    if (query.has('AWSAccessKeyId') || query.has('Signature')) throw s3Failure('InvalidRequest', SIGV2)
    return { kind: 'anonymous' }
  }
  const bearer = /^bearer +([^ ]+)$/i.exec(authorization)?.[1]
  if (bearer !== undefined) return { kind: 'bearer', token: bearer }
  if (authorization.startsWith(`${ALGORITHM} `) || authorization === ALGORITHM)
    return { kind: 'signature', claim: readHeaderClaim(authorization, headers) }
  if (authorization.startsWith('AWS ')) throw s3Failure('InvalidRequest', SIGV2)
  throw s3Failure('InvalidRequest', `The authorization mechanism is not supported; use ${ALGORITHM}`)
}
