import { paramOf } from '@platform/ai-protocols/fault'
import { AiError } from '@platform/errors/ai-error'

/** Members in which pictures and videos stand: a text that looks like an address is one, whatever it is called. */
const MEDIA_MEMBERS = new Set(['image', 'images', 'frame_images', 'input_references', 'video'])
/**
 * Members that hold schemas, whose properties may be called anything, the caller's own notes, and what earlier answers cited and
 * opened: nothing in them is fetched or looked up.
 */
const PASSED_OVER = new Set(['parameters', 'input_schema', 'schema', 'metadata', 'annotations', 'action'])

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
      const at = look(n, name, value[n], value, visit)
      if (at) return at
    }
    return undefined
  }
  for (const key of Object.keys(value)) {
    const at = look(key, key, value[key], value, visit)
    if (at) return at
  }
  return undefined
}

function look(key: string | number, name: string, member: unknown, parent: Fields, visit: Visit) {
  if (visit(name, member, parent)) return [key]
  if (!isFields(member) || PASSED_OVER.has(name)) return undefined
  const found = findPath(member, visit, name)
  return found && [key, ...found]
}

const unsupportedUrl = (param: string): AiError =>
  new AiError(400, 'invalid_request_error', 'unsupported_url', 'Expected a data: URL or an https: address', { param })

/** The beginning of an address, but of none that has the content in it. */
const SCHEME = /^[a-z][a-z0-9+.-]*:\//i

/** True of a member that names an address: `url`, `image_url`, `file_uri` and their like, and content that is an address instead. */
const isNamedAddress = (name: string, value: unknown): value is string =>
  typeof value === 'string' &&
  (/(^|_)ur[il](\[\])?$/.test(name) || ((name === 'file_data' || name === 'data') && SCHEME.test(value)))

const looksLikeAddress = (name: string, value: unknown): value is string =>
  isNamedAddress(name, value) || (typeof value === 'string' && SCHEME.test(value))

/**
 * The first member that names an address which somebody would have to fetch; undefined where all content is in the body.
 * Throws AiError for an address that is neither `data:` nor `https:`.
 */
export function findUrlParam(body: Fields): string | undefined {
  let fetched: string | undefined
  for (const [member, value] of Object.entries(body)) {
    if (typeof value !== 'string' && !isFields(value)) continue
    const isAddress = MEDIA_MEMBERS.has(member) ? looksLikeAddress : isNamedAddress
    const part = { [member]: value }
    const refused = findPath(part, (name, text) => isAddress(name, text) && !/^(data:|https:\/\/)/i.test(text))
    if (refused) throw unsupportedUrl(paramOf(refused))
    fetched ??= found(part, (name, text) => isAddress(name, text) && /^https:/i.test(text))
  }
  return fetched
}

function found(part: Fields, visit: Visit): string | undefined {
  const path = findPath(part, visit)
  return path && paramOf(path)
}

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
 * The first member that names something which is kept in the account at the provider: a file, a store, a container. With the operator's key, which many organizations share, nobody may (D89).
 */
export function findAccountParam(body: Fields): string | undefined {
  for (const name of ['conversation', 'prompt'])
    if (isFields(body[name]) || (name === 'conversation' && typeof body[name] === 'string')) return name
  return found(body, (member, value, parent) => {
    if (value == null) return false
    if (ACCOUNT_MEMBERS.has(member)) return true
    // An earlier spoken answer of an assistant, or a voice that somebody made, by id.
    if ((member === 'audio' || member === 'voice') && isFields(value) && typeof value['id'] === 'string') return true
    return member === 'container' && typeof value === 'string' && parent['type'] === 'code_interpreter'
  })
}

export const unsupportedParameter = (param: string, message: string): AiError =>
  new AiError(400, 'invalid_request_error', 'unsupported_parameter', message, { param })
