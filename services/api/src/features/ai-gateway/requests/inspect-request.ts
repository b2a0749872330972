import { paramOf } from '@platform/ai-protocols/fault'
import { AiError } from '@platform/errors/ai-error'

/** Members of a body in which messages and items stand, whose texts are for the model. */
const TEXT_MEMBERS = ['messages', 'input', 'prompt'] as const
/** Members in which pictures and videos stand: a text that looks like an address is one, whatever it is called. */
const MEDIA_MEMBERS = ['image', 'images', 'frame_images', 'input_references', 'video'] as const
/**
 * Members that hold schemas, whose properties may be called anything, and what earlier answers cited and opened: nothing in them is
 * fetched or looked up.
 */
const PASSED_OVER = new Set(['parameters', 'input_schema', 'annotations', 'action'])
const DEPTH_MAX = 10

type Fields = Readonly<Record<string, unknown>>
const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null

/** Looks at a member of an object, or at an item of an array by its index. */
type Visit = (name: string | number, value: unknown, parent: Fields) => boolean

/**
 * Visits each member of JSON, with its name. Stops and returns the path for which `visit` is true, or nothing. Nearly no body has
 * one, so no path is put together before.
 */
function findPath(value: unknown, visit: Visit, depth = 0): (string | number)[] | undefined {
  if (!isFields(value) || depth > DEPTH_MAX) return undefined
  if (Array.isArray(value)) {
    for (let n = 0; n < value.length; n++) {
      const found = look(n, value[n], value, visit, depth)
      if (found) return found
    }
    return undefined
  }
  for (const name of Object.keys(value)) {
    const found = look(name, value[name], value, visit, depth)
    if (found) return found
  }
  return undefined
}

function look(name: string | number, member: unknown, parent: Fields, visit: Visit, depth: number) {
  if (visit(name, member, parent)) return [name]
  if (!isFields(member) || PASSED_OVER.has(String(name))) return undefined
  const found = findPath(member, visit, depth + 1)
  return found && [name, ...found]
}

const unsupportedUrl = (param: string): AiError =>
  new AiError(400, 'invalid_request_error', 'unsupported_url', 'Expected a data: URL or an https: address', { param })

/** True of a member that names an address: `url`, `image_url`, `file_uri` and their like. */
const isNamedAddress = (name: string | number, value: unknown): value is string =>
  typeof value === 'string' && /(^|_)ur[il]$/.test(String(name))

const looksLikeAddress = (name: string | number, value: unknown): value is string =>
  isNamedAddress(name, value) || (typeof value === 'string' && /^[a-z][a-z0-9+.-]*:\//i.test(value))

/**
 * The first member that names an address which somebody would have to fetch; undefined where all content is in the body.
 * Throws AiError for an address that is neither `data:` nor `https:`.
 */
export function findUrlParam(body: Fields): string | undefined {
  const { tools } = body
  const servers = Array.isArray(tools)
    ? tools.map((tool) => (isFields(tool) ? { server_url: tool['server_url'] } : undefined))
    : undefined
  const parts = [
    ...TEXT_MEMBERS.map((name) => ({ part: { [name]: body[name] }, isAddress: isNamedAddress })),
    ...MEDIA_MEMBERS.map((name) => ({ part: { [name]: body[name] }, isAddress: looksLikeAddress })),
    { part: { tools: servers }, isAddress: isNamedAddress },
  ]
  let fetched: string | undefined
  for (const { part, isAddress } of parts) {
    const refused = findPath(part, (name, value) => isAddress(name, value) && !/^(data:|https:\/\/)/i.test(value))
    if (refused) throw unsupportedUrl(paramOf(refused))
    const found = findPath(part, (name, value) => isAddress(name, value) && /^https:/i.test(value))
    if (found) fetched ??= paramOf(found)
  }
  return fetched
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
 * The first member that names something which is kept in the account at the provider: a file, a store, a container, a stored
 * answer. With the operator's key, which many organizations share, nobody may (D89).
 */
export function findAccountParam(body: Fields): string | undefined {
  for (const name of ['conversation', 'prompt'])
    if (isFields(body[name]) || (name === 'conversation' && typeof body[name] === 'string')) return name
  for (const name of ['messages', 'input', 'tools', 'tool_resources', 'image', 'images'] as const) {
    const found = findPath({ [name]: body[name] }, (member, value, parent) => {
      if (value == null) return false
      if (ACCOUNT_MEMBERS.has(String(member))) return true
      if (member === 'type' && value === 'item_reference') return true
      // An earlier spoken answer of an assistant, by id.
      if (member === 'audio' && isFields(value) && typeof value['id'] === 'string') return true
      return member === 'container' && typeof value === 'string' && parent['type'] === 'code_interpreter'
    })
    if (found) return paramOf(found)
  }
  return undefined
}

export const unsupportedParameter = (param: string, message: string): AiError =>
  new AiError(400, 'invalid_request_error', 'unsupported_parameter', message, { param })
