import { paramOf } from '@platform/ai-protocols/fault'
import { AiError } from '@platform/errors/ai-error'

/** Members of a body in which pictures and videos stand: a text in them that looks like an address is one, whatever it is called. */
const MEDIA_MEMBERS = new Set(['image', 'images', 'frame_images', 'input_references', 'video'])
/** Members anywhere whose text is an address if it looks like one. */
const CONTENT_MEMBERS = new Set([...MEDIA_MEMBERS, 'audio', 'data', 'file', 'file_data', 'href', 'src'])
/**
 * Members that hold schemas, whose properties may be called anything, headers of tools, the caller's own notes, and what earlier
 * answers cited and opened: nothing in them is fetched or looked up.
 */
const PASSED_OVER = new Set(['parameters', 'input_schema', 'schema', 'headers', 'metadata', 'annotations', 'action'])

type Fields = Readonly<Record<string, unknown>>
const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null

/** Looks at a member of an object; an item of an array goes by the name of the array. */
type Visit = (name: string, value: unknown, parent: Fields) => boolean

/**
 * Visits each member of JSON, with its name. Stops and returns the path for which `visit` is true, or nothing. Nearly no body has
 * one, so no path is put together before.
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

/** A scheme, behind what clients trim off. Base64 has no colon; behind that of a sentence there is a space, which no address has. */
const SCHEME = /^[\0-\x20]*[a-z][a-z0-9+.-]*:(?! )/i
/** An address without its scheme; sound in base64 also begins with slashes. */
const HOST = /^[\0-\x20]*\/\/[^/]*[.:[]/
const BEGINNING_LENGTH = 300

function looksLikeAddress(text: string): boolean {
  // Clients leave tabs and ends of lines out, wherever they stand (WHATWG URL).
  const beginning = text.slice(0, BEGINNING_LENGTH).replaceAll(/[\t\n\r]/g, '')
  return SCHEME.test(beginning) || HOST.test(beginning)
}

/** True of a member that names an address: `url`, `image_url`, `file_uri` and their like, and content that is an address instead. */
const isAddress = (name: string, value: unknown): value is string =>
  typeof value === 'string' &&
  (/(^|_)ur[il](\[\])?$/.test(name) || (CONTENT_MEMBERS.has(name) && looksLikeAddress(value)))

const isAnyAddress = (name: string, value: unknown): value is string =>
  isAddress(name, value) || (typeof value === 'string' && looksLikeAddress(value))

/**
 * The first member that names an address which somebody would have to fetch; undefined where all content is in the body.
 * Throws AiError for an address that is neither `data:` nor `https:`.
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

/** Members that the gateway looks at or sets, wherever they stand. */
const knownMembers = new Set([
  ...CONTENT_MEMBERS,
  ...`model stream stream_options stream_format include_usage n store background callback_url service_tier modalities
    max_tokens max_completion_tokens max_output_tokens messages input prompt instructions tools tool_resources
    conversation previous_response_id duration seconds response_format id type role content result encrypted_content
    container voice file_id file_ids vector_store_ids container_id skill_id connector_id`.split(/\s+/),
])

/** Letters that become others in lower case; the long s and the sign of Kelvin are among them. */
const OTHER_CASE = /[^\0-@[-\x7f]/

/**
 * The first member that is known in another case. Servers in Go take Model for model, and the last of them counts: it would go past
 * the price and every rule.
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
 * The first member that names something which is kept in the account at the provider: a file, a store, a container. With the
 * operator's key, which many organizations share, nobody may (D89).
 */
export function findAccountParam(body: Fields): string | undefined {
  for (const name of ['conversation', 'prompt'])
    if (isFields(body[name]) || (name === 'conversation' && typeof body[name] === 'string')) return name
  return describePath(body, (member, value, parent) => {
    if (value == null) return false
    if (ACCOUNT_MEMBERS.has(member)) return true
    // An earlier spoken answer of an assistant, or a voice that somebody made, by id.
    if ((member === 'audio' || member === 'voice') && isFields(value) && typeof value['id'] === 'string') return true
    return member === 'container' && typeof value === 'string' && parent['type'] === 'code_interpreter'
  })
}

export const unsupportedParameter = (param: string, message: string): AiError =>
  new AiError(400, 'invalid_request_error', 'unsupported_parameter', message, { param })
