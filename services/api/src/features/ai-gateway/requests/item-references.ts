import { paramOf } from '@platform/ai-protocols/fault'
import { isRecord, listOf, textOf } from '@platform/ai-protocols/record'
import { unsupportedParameter } from './inspect-request.ts'

/** An item of the input that the provider would look up by its id. */
export interface ItemReference {
  id: string
  /** The member that names it, such as `input[3].id`. */
  param: string
}

/** Beyond any conversation, and within what one look-up should ask for. */
const REFERENCES_MAX = 1_000

/** Where an item has its content; an item without it stands for the one that the provider keeps. */
const contentMembers: Readonly<Record<string, readonly string[]>> = {
  message: ['content'],
  reasoning: ['encrypted_content', 'content'],
  compaction: ['encrypted_content'],
  image_generation_call: ['result'],
}
const NO_CONTENT = new Set(['id', 'type', 'status'])

/** True of a text that says something, and of a part or an array that holds one. */
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

/** The items of a body of /responses that its provider has to know by their ids. Throws AiError for more than a thousand. */
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
