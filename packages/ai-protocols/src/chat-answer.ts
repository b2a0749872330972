import { listOf, memberOf, textOf } from './record.ts'

/** A citation of a web page, as the annotations of a response have it. Indexes count the characters of the text. */
export interface UrlCitation {
  type: 'url_citation'
  start_index: number
  end_index: number
  url: string
  title: string
}

/** What a message of a chat completion says, or the piece of one in a chunk. Texts are empty where it says nothing. */
interface ChatAnswer {
  reasoning: string
  text: string
  refusal: string
  citations: UrlCitation[]
}

/** The texts of all parts of a type, in order. */
function joinParts(parts: readonly unknown[], type: string, read: (part: unknown) => string): string {
  return parts.map((part) => (memberOf(part, 'type') === type ? read(part) : '')).join('')
}

const readText = (part: unknown): string => textOf(part, 'text') ?? ''
/** Thinking is text, or an array of parts of text. */
const readThinking = (part: unknown): string =>
  textOf(part, 'thinking') ?? joinParts(listOf(part, 'thinking'), 'text', readText)

/** A place in the text. One that is missing or no count becomes 0: the address matters more than the place. */
function placeOf(citation: unknown, name: string): number {
  const place = memberOf(citation, name)
  return typeof place === 'number' && Number.isSafeInteger(place) && place >= 0 ? place : 0
}

function toCitations(annotation: unknown): UrlCitation[] {
  const citation = memberOf(annotation, 'url_citation')
  const url = textOf(citation, 'url')
  if (memberOf(annotation, 'type') !== 'url_citation' || url === undefined) return []
  return [
    {
      type: 'url_citation',
      start_index: placeOf(citation, 'start_index'),
      end_index: placeOf(citation, 'end_index'),
      url,
      title: textOf(citation, 'title') ?? '',
    },
  ]
}

/**
 * Reads a message of a chat completion, or the delta of a chunk. Content is text, as OpenAI's API has it, or an array of parts
 * `text`, `thinking` and `refusal`, as some compatible upstreams send it; other parts are left out. Reasoning is `reasoning_content`,
 * `reasoning` or the parts `thinking`: the first that is not empty, since upstreams repeat it.
 */
export function chatAnswerOf(message: unknown): ChatAnswer {
  const parts = listOf(message, 'content')
  return {
    reasoning:
      textOf(message, 'reasoning_content') ||
      textOf(message, 'reasoning') ||
      joinParts(parts, 'thinking', readThinking),
    text: textOf(message, 'content') ?? joinParts(parts, 'text', readText),
    refusal: textOf(message, 'refusal') || joinParts(parts, 'refusal', (part) => textOf(part, 'refusal') ?? ''),
    citations: listOf(message, 'annotations').flatMap(toCitations),
  }
}
