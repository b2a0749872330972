import { paramOf } from '@platform/ai-protocols/fault'
import { AiError } from '@platform/errors/ai-error'

/** Members for images and videos: any text inside that looks like a URL is one, whatever the name of its member. */
const MEDIA_MEMBERS = new Set(['image', 'images', 'frame_images', 'input_references', 'video'])
/** Members anywhere whose text is a URL if it looks like one. */
const CONTENT_MEMBERS = new Set([...MEDIA_MEMBERS, 'audio', 'data', 'file', 'file_data', 'href', 'src'])
/**
 * Members with schemas, whose properties may have any name, headers of tools, the caller's own notes, and citations and opened
 * pages of earlier answers: nothing in them is fetched or looked up.
 */
const PASSED_OVER = new Set(['parameters', 'input_schema', 'schema', 'headers', 'metadata', 'annotations', 'action'])

type Fields = Readonly<Record<string, unknown>>
const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null

/** Checks a member of an object; an item of an array has the name of the array. */
type Visit = (name: string, value: unknown, parent: Fields) => boolean

/**
 * Visits each member of JSON, with its name. Stops and returns the path for which `visit` is true; undefined if there is none.
 * Hardly any body has one, so the path is only built on success.
 */
function findPath(value: Fields, visit: Visit, name = ''): (string | number)[] | undefined {
  if (Array.isArray(value)) {
    for (let n = 0; n < value.length; n++) {
      const path = look(n, name, value[n], value, visit)
      if (path) return path
    }
    return undefined
  }
  for (const key of Object.keys(value)) {
    const path = look(key, key, value[key], value, visit)
    if (path) return path
  }
  return undefined
}

function look(key: string | number, name: string, member: unknown, parent: Fields, visit: Visit) {
  if (visit(name, member, parent)) return [key]
  if (!isFields(member) || PASSED_OVER.has(name)) return undefined
  const path = findPath(member, visit, name)
  return path && [key, ...path]
}

const unsupportedUrl = (param: string): AiError =>
  new AiError(400, 'invalid_request_error', 'unsupported_url', 'Expected a data: URL or an https: address', { param })

/** A scheme, after characters that clients trim. Base64 has no colon; in a sentence a space follows it, which no URL has there. */
const SCHEME = /^[\0-\x20]*[a-z][a-z0-9+.-]*:(?! )/i
/** A URL without its scheme; base64 audio may also begin with slashes. */
const HOST = /^[\0-\x20]*\/\/[^/]*[.:[]/
const BEGINNING_LENGTH = 300

function looksLikeAddress(text: string): boolean {
  // Clients ignore tabs and line breaks anywhere in a URL (WHATWG URL).
  const beginning = text.slice(0, BEGINNING_LENGTH).replaceAll(/[\t\n\r]/g, '')
  return SCHEME.test(beginning) || HOST.test(beginning)
}

/** True for a member with a URL: `url`, `image_url`, `file_uri` and similar names, and content given as a URL. */
const isAddress = (name: string, value: unknown): value is string =>
  typeof value === 'string' &&
  (/(^|_)ur[il](\[\])?$/.test(name) || (CONTENT_MEMBERS.has(name) && looksLikeAddress(value)))

const isAnyAddress = (name: string, value: unknown): value is string =>
  isAddress(name, value) || (typeof value === 'string' && looksLikeAddress(value))

/**
 * Returns the first member with a URL that somebody would have to fetch; undefined if the body contains all content.
 * Throws AiError for a URL that is neither `data:` nor `https:`.
 */
export function findUrlParam(body: Fields): string | undefined {
  let fetched: string | undefined
  for (const [member, value] of Object.entries(body)) {
    if (typeof value !== 'string' && !isFields(value)) continue
    const isOne = MEDIA_MEMBERS.has(member) ? isAnyAddress : isAddress
    const part = { [member]: value }
    const refused = findPath(part, (name, text) => isOne(name, text) && !/^(data:|https:\/\/)/i.test(text))
    if (refused) throw unsupportedUrl(paramOf(refused))
    fetched ??= describePath(part, (name, text) => isOne(name, text) && /^https:/i.test(text))
  }
  return fetched
}

function describePath(part: Fields, visit: Visit): string | undefined {
  const path = findPath(part, visit)
  return path && paramOf(path)
}

/** Members that the gateway reads or sets, anywhere in a body. */
const knownMembers = new Set([
  ...CONTENT_MEMBERS,
  ...`model stream stream_options stream_format include_usage n store background callback_url service_tier modalities
    max_tokens max_completion_tokens max_output_tokens messages input prompt instructions tools tool_resources
    conversation previous_response_id duration seconds response_format id type role content result encrypted_content
    container voice file_id file_ids vector_store_ids container_id skill_id connector_id`.split(/\s+/),
])

/** Letters that lower-casing changes, including the long s and the Kelvin sign. */
const OTHER_CASE = /[^\0-@[-\x7f]/

/**
 * Returns the first member that is a known one in another case. Servers in Go accept Model for model and use the last of them, so
 * it would bypass the price and every rule.
 */
export const findOtherCase = (body: Fields): string | undefined =>
  describePath(body, (member, _, parent) => {
    if (Array.isArray(parent) || !OTHER_CASE.test(member)) return false
    const lower = member.toUpperCase().toLowerCase()
    return knownMembers.has(lower) || /(^|_)ur[il]$/.test(lower)
  })

const ACCOUNT_MEMBERS = new Set([
  'file_id',
  'file_ids',
  'vector_store_ids',
  'container_id',
  'skill_id',
  'connector_id',
  'conversation',
])

/**
 * Returns the first member that refers to data in the account at the provider: a file, a store, a container. Not allowed with the
 * operator's key, which many organizations share (D89).
 */
export function findAccountParam(body: Fields): string | undefined {
  for (const name of ['conversation', 'prompt'])
    if (isFields(body[name]) || (name === 'conversation' && typeof body[name] === 'string')) return name
  return describePath(body, (member, value, parent) => {
    if (value == null) return false
    if (ACCOUNT_MEMBERS.has(member)) return true
    // An earlier spoken answer of an assistant, or a custom voice, by id.
    if ((member === 'audio' || member === 'voice') && isFields(value) && typeof value['id'] === 'string') return true
    return member === 'container' && typeof value === 'string' && parent['type'] === 'code_interpreter'
  })
}

export const unsupportedParameter = (param: string, message: string): AiError =>
  new AiError(400, 'invalid_request_error', 'unsupported_parameter', message, { param })
