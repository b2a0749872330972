import { listOf, memberOf, textOf } from './record.ts'

/** A web citation, as in the annotations of a response. Indexes count the characters of the text. */
export interface UrlCitation {
  type: 'url_citation'
  start_index: number
  end_index: number
  url: string
  title: string
}

/** The contents of a chat completion's message, or of a delta in a chunk. Texts are empty if absent. */
interface ChatAnswer {
  reasoning: string
  text: string
  refusal: string
  citations: UrlCitation[]
}

/** Joins the texts of all parts of a type, in order. */
function joinParts(parts: readonly unknown[], type: string, read: (part: unknown) => string): string {
  return parts.map((part) => (memberOf(part, 'type') === type ? read(part) : '')).join('')
}

const readText = (part: unknown): string => textOf(part, 'text') ?? ''
/** Thinking is text, or an array of text parts. */
const readThinking = (part: unknown): string =>
  textOf(part, 'thinking') ?? joinParts(listOf(part, 'thinking'), 'text', readText)

/** Reads an index into the text. A missing or invalid one becomes 0: the URL matters more than the position. */
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
 * Reads a message of a chat completion, or the delta of a chunk. Content is text, as in OpenAI's API, or an array of parts of
 * types `text`, `thinking` and `refusal`, as some compatible upstreams send it; other parts are left out. Reasoning is the first
 * non-empty one of `reasoning_content`, `reasoning` and the `thinking` parts, since upstreams repeat it.
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
