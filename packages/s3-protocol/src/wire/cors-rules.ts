import { readXml, type XmlNode } from './read-xml.ts'
import { s3Failure } from './s3-failure.ts'
import { writeXml } from './write-xml.ts'

/** Limits of S3 (API PutBucketCors). */
const RULES_MAX = 100
const ID_LENGTH_MAX = 255
const ELEMENTS_MAX = 10_000
const SECONDS_MAX = 2_147_483_647

const METHODS: ReadonlySet<string> = new Set(['GET', 'PUT', 'HEAD', 'POST', 'DELETE'])
/** A header's name (RFC 9110 §5.6.2); a pattern may contain a `*`, which is a valid character anyway. */
const TOKEN = /^[!#$%&'*+.^_`|~\w-]+$/
// oxlint-disable-next-line no-control-regex -- what an Origin header cannot carry
const NOT_IN_ORIGIN = /[^\x21-\x7e]/

/** A rule of a bucket's CORS configuration, as S3 defines it. Origins and headers may contain one `*`, which matches any text. */
export interface CorsRule {
  id?: string
  allowedOrigins: string[]
  allowedMethods: string[]
  allowedHeaders: string[]
  exposeHeaders: string[]
  /** How long browsers may cache the response to a preflight. */
  maxAgeSeconds?: number
}

/** A browser's CORS request: a preflight, or the request itself, which names no headers. */
export interface CorsRequest {
  origin: string
  method: string
  /** Names of headers that the page wants to send, as spelled in the preflight. */
  headers: readonly string[]
}

const textsOf = (rule: XmlNode, name: string): string[] =>
  rule.children.filter((child) => child.name === name).map(({ text }) => text.trim())

/** Throws InvalidRequest for a pattern with more than one wildcard. */
function checkPatterns(element: string, patterns: readonly string[]): void {
  for (const pattern of patterns)
    if (pattern.split('*').length > 2)
      throw s3Failure('InvalidRequest', `${element} "${pattern}" can not have more than one wildcard.`)
}

const RULE_ELEMENTS: ReadonlySet<string> = new Set([
  'ID',
  'AllowedOrigin',
  'AllowedMethod',
  'AllowedHeader',
  'ExposeHeader',
  'MaxAgeSeconds',
])

function readRule(node: XmlNode): CorsRule {
  if (node.name !== 'CORSRule' || node.children.some(({ name }) => !RULE_ELEMENTS.has(name)))
    throw s3Failure('MalformedXML')
  const [id, ...otherIds] = textsOf(node, 'ID')
  const [maxAge, ...otherMaxAges] = textsOf(node, 'MaxAgeSeconds')
  const allowedOrigins = textsOf(node, 'AllowedOrigin')
  const allowedMethods = textsOf(node, 'AllowedMethod')
  const allowedHeaders = textsOf(node, 'AllowedHeader')
  const exposeHeaders = textsOf(node, 'ExposeHeader')
  if (otherIds.length > 0 || otherMaxAges.length > 0 || allowedOrigins.length === 0 || allowedMethods.length === 0)
    throw s3Failure('MalformedXML')
  if (maxAge !== undefined && !(/^\d{1,10}$/.test(maxAge) && Number(maxAge) <= SECONDS_MAX))
    throw s3Failure('MalformedXML', 'MaxAgeSeconds must be a number of seconds')
  if (id !== undefined && id.length > ID_LENGTH_MAX)
    throw s3Failure('InvalidRequest', `The ID of a rule is at most ${ID_LENGTH_MAX} characters long`)
  const method = allowedMethods.find((name) => !METHODS.has(name))
  if (method !== undefined)
    throw s3Failure(
      'InvalidRequest',
      `Found unsupported HTTP method in CORS config. Unsupported method is ${method.slice(0, 100)}`,
    )
  if (allowedOrigins.some((origin) => origin === '' || NOT_IN_ORIGIN.test(origin)))
    throw s3Failure('InvalidRequest', 'An AllowedOrigin is not an origin')
  if ([...allowedHeaders, ...exposeHeaders].some((name) => !TOKEN.test(name)))
    throw s3Failure('InvalidRequest', 'An AllowedHeader or ExposeHeader is not the name of a header')
  checkPatterns('AllowedOrigin', allowedOrigins)
  checkPatterns('AllowedHeader', allowedHeaders)
  const wildcard = exposeHeaders.find((name) => name.includes('*'))
  if (wildcard !== undefined) throw s3Failure('InvalidRequest', `ExposeHeader "${wildcard}" contains wildcard.`)
  return {
    ...(id !== undefined && { id }),
    allowedOrigins,
    allowedMethods,
    allowedHeaders,
    exposeHeaders,
    ...(maxAge !== undefined && { maxAgeSeconds: Number(maxAge) }),
  }
}

/** Reads a CORSConfiguration: 1 to 100 rules. The caller limits the bytes. Throws MalformedXML, InvalidRequest. */
export function readCorsDocument(body: Buffer): CorsRule[] {
  const root = readXml(body, 'CORSConfiguration', ELEMENTS_MAX)
  const rules = root.children.map(readRule)
  if (rules.length === 0) throw s3Failure('MalformedXML')
  if (rules.length > RULES_MAX)
    throw s3Failure('InvalidRequest', `The number of CORS rules should not exceed allowed limit of ${RULES_MAX} rules.`)
  const ids = rules.flatMap(({ id }) => id ?? [])
  if (new Set(ids).size < ids.length) throw s3Failure('InvalidRequest', 'The ID of a rule is not unique')
  return rules
}

/** Writes a configuration in the format of `readCorsDocument`. */
export const writeCorsDocument = (rules: readonly CorsRule[]): string =>
  writeXml('CORSConfiguration', {
    CORSRule: rules.map((rule) => ({
      ID: rule.id,
      AllowedMethod: rule.allowedMethods,
      AllowedOrigin: rule.allowedOrigins,
      AllowedHeader: rule.allowedHeaders,
      ExposeHeader: rule.exposeHeaders,
      MaxAgeSeconds: rule.maxAgeSeconds,
    })),
  })

/** True if the text matches the pattern, in which one `*` matches any text, including none. */
function matches(pattern: string, text: string): boolean {
  const index = pattern.indexOf('*')
  if (index < 0) return pattern === text
  const end = pattern.slice(index + 1)
  return text.length >= index + end.length && text.startsWith(pattern.slice(0, index)) && text.endsWith(end)
}

/** Returns the first rule that allows the request; undefined if none does. Header names are case-insensitive, origins are not. */
const findRule = (rules: readonly CorsRule[], { origin, method, headers }: CorsRequest): CorsRule | undefined =>
  rules.find(
    (rule) =>
      rule.allowedMethods.includes(method) &&
      rule.allowedOrigins.some((pattern) => matches(pattern, origin)) &&
      headers.every((name) =>
        rule.allowedHeaders.some((pattern) => matches(pattern.toLowerCase(), name.toLowerCase())),
      ),
  )

/**
 * Returns the response headers for the first rule that allows the request; undefined if no rule does. They are the same for a
 * preflight and for the request itself, except that the latter asks for no headers (S3 API "Enabling CORS").
 */
export function corsRuleHeaders(rules: readonly CorsRule[], request: CorsRequest): Record<string, string> | undefined {
  const rule = findRule(rules, request)
  if (!rule) return undefined
  const isForAll = rule.allowedOrigins.find((pattern) => matches(pattern, request.origin)) === '*'
  return {
    'access-control-allow-origin': isForAll ? '*' : request.origin,
    // Browsers reject it in combination with a response for all origins.
    ...(!isForAll && { 'access-control-allow-credentials': 'true' }),
    'access-control-allow-methods': rule.allowedMethods.join(', '),
    ...(request.headers.length > 0 && { 'access-control-allow-headers': request.headers.join(', ') }),
    ...(rule.exposeHeaders.length > 0 && { 'access-control-expose-headers': rule.exposeHeaders.join(', ') }),
    ...(rule.maxAgeSeconds !== undefined && { 'access-control-max-age': String(rule.maxAgeSeconds) }),
    vary: 'Origin, Access-Control-Request-Headers, Access-Control-Request-Method',
  }
}
