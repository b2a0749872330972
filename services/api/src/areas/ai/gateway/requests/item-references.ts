import { paramOf } from '@platform/ai-protocols/fault'
import { isRecord, listOf, textOf } from '@platform/ai-protocols/record'
import { unsupportedParameter } from './inspect-request.ts'

/** An input item that the provider would look up by its id. */
export interface ItemReference {
  id: string
  /** The path of its member, for example `input[3].id`. */
  param: string
}

/** More than any conversation has, and few enough for one query. */
const REFERENCES_MAX = 1_000

/** Members with the content of an item; an item without any refers to the one stored at the provider. */
const contentMembers: Readonly<Record<string, readonly string[]>> = {
  message: ['content'],
  reasoning: ['encrypted_content', 'content'],
  compaction: ['encrypted_content'],
  image_generation_call: ['result'],
}
const NO_CONTENT = new Set(['id', 'type', 'status'])

/** True for non-blank text, and for a part or an array that contains some. */
function hasText(value: unknown): boolean {
  if (typeof value === 'string') return value.trim() !== ''
  if (Array.isArray(value)) return value.some(hasText)
  return isRecord(value) && Object.entries(value).some(([name, member]) => name !== 'type' && hasText(member))
}

function isReference(item: Readonly<Record<string, unknown>>): boolean {
  const type = (textOf(item, 'type') ?? 'message').trim()
  if (type === 'item_reference') return true
  const members = Object.hasOwn(contentMembers, type) ? contentMembers[type] : undefined
  if (members) return !members.some((name) => hasText(item[name]))
  return Object.keys(item).every((name) => NO_CONTENT.has(name))
}

/** Returns the items of a /responses body that the provider has to know by id. Throws AiError for more than a thousand. */
export function findItemReferences(body: Readonly<Record<string, unknown>>): ItemReference[] {
  const references: ItemReference[] = []
  for (const [n, item] of listOf(body, 'input').entries()) {
    const id = textOf(item, 'id')
    if (id === undefined || !isRecord(item) || !isReference(item)) continue
    references.push({ id, param: paramOf(['input', n, 'id']) })
    if (references.length > REFERENCES_MAX)
      throw unsupportedParameter('input', `At most ${REFERENCES_MAX} items may be referred to by their ids`)
  }
  return references
}
