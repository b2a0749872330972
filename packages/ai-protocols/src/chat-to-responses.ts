import { chatAnswerOf, type UrlCitation } from './chat-answer.ts'
import { isRecord, listOf, memberOf, textOf } from './record.ts'
import type { ResponsesRequest } from './responses-request.ts'
import type { SseEvent } from './sse-scanner.ts'
import { type ResponseUsage, toResponseUsage, type Usage, usageOfChat } from './usage.ts'

type ItemStatus = 'in_progress' | 'completed' | 'incomplete'
interface TextPart {
  type: 'output_text'
  text: string
  annotations: UrlCitation[]
  logprobs: never[]
}
interface RefusalPart {
  type: 'refusal'
  refusal: string
}
interface ReasoningPart {
  type: 'reasoning_text'
  text: string
}
interface MessageItem {
  type: 'message'
  id: string
  role: 'assistant'
  status: ItemStatus
  content: (TextPart | RefusalPart)[]
}
interface ReasoningItem {
  type: 'reasoning'
  id: string
  status: ItemStatus
  summary: never[]
  content: ReasoningPart[]
}
interface FunctionCallItem {
  type: 'function_call'
  id: string
  call_id: string
  name: string
  arguments: string
  status: ItemStatus
}

/** An item of a response's output. */
type OutputItem = MessageItem | ReasoningItem | FunctionCallItem

/** A response (`POST /responses`) translated from a chat completion. */
export interface ResponseBody {
  id: string
  object: 'response'
  created_at: number
  status: 'in_progress' | 'completed' | 'incomplete' | 'failed'
  access_programs: null
  background: false
  error: { code: 'server_error'; message: string } | null
  incomplete_details: { reason: 'max_output_tokens' | 'content_filter' } | null
  instructions: string | null
  max_output_tokens: number | null
  max_tool_calls: null
  metadata: Record<string, string>
  model: string
  output: OutputItem[]
  parallel_tool_calls: boolean
  previous_response_id: null
  reasoning: { effort: string | null; summary: null }
  safety_identifier: string | null
  service_tier?: string
  store: false
  temperature: number | null
  text: Record<string, unknown>
  tool_choice: NonNullable<ResponsesRequest['tool_choice']>
  tools: NonNullable<ResponsesRequest['tools']>
  top_logprobs: 0
  top_p: number | null
  truncation: 'disabled'
  usage: ResponseUsage | null
  user?: string
}

/** Ids and creation time of a response and its items. `createdAt` is in seconds since 1970. */
export interface ResponseNames {
  id: string
  createdAt: number
  /** Creates an item id, which begins with the prefix and an underscore. */
  newItemId: (prefix: 'msg' | 'rs' | 'fc') => string
}

type Outcome = Pick<ResponseBody, 'status' | 'error' | 'incomplete_details'>

function responseOf(
  request: ResponsesRequest,
  names: Pick<ResponseNames, 'id' | 'createdAt'>,
  outcome: Outcome,
  output: OutputItem[],
  usage: Usage | undefined,
  serviceTier: string | undefined,
): ResponseBody {
  return {
    id: names.id,
    object: 'response',
    created_at: names.createdAt,
    ...outcome,
    access_programs: null,
    background: false,
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    max_tool_calls: null,
    metadata: request.metadata ?? {},
    model: request.model,
    output,
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    previous_response_id: null,
    reasoning: { effort: request.reasoning?.effort ?? null, summary: null },
    safety_identifier: request.safety_identifier ?? null,
    ...(serviceTier !== undefined && { service_tier: serviceTier }),
    store: false,
    temperature: request.temperature ?? null,
    text: { ...request.text, format: request.text?.format ?? { type: 'text' } },
    tool_choice: request.tool_choice ?? 'auto',
    tools: request.tools ?? [],
    top_logprobs: 0,
    top_p: request.top_p ?? null,
    truncation: 'disabled',
    usage: usage === undefined ? null : toResponseUsage(usage),
    ...(request.user != null && { user: request.user }),
  }
}

function outcomeOf(finishReason: unknown): Outcome {
  switch (finishReason) {
    case 'length':
      return { status: 'incomplete', error: null, incomplete_details: { reason: 'max_output_tokens' } }
    case 'content_filter':
      return { status: 'incomplete', error: null, incomplete_details: { reason: 'content_filter' } }
    default:
      return { status: 'completed', error: null, incomplete_details: null }
  }
}

const textPart = (text: string, annotations: UrlCitation[] = []): TextPart => ({
  type: 'output_text',
  text,
  annotations,
  logprobs: [],
})

/** Creates a call item without arguments. Some upstreams omit the call id, which results refer to; then the item's id is used. */
function newCallItem(names: ResponseNames, callId: string | undefined, name: string): FunctionCallItem {
  const id = names.newItemId('fc')
  const call_id = callId === undefined || callId === '' ? id : callId
  return { type: 'function_call', id, call_id, name, arguments: '', status: 'in_progress' }
}

/**
 * Translates a chat completion into a response. Reasoning becomes an item before the message. Citations annotate the text;
 * without text they are left out.
 *
 * The result has all members of a response but `output_text`, which the SDK adds by itself.
 * Returns undefined if the value is not a completion with a choice, or a call lacks its name.
 */
export function toResponse(
  completion: unknown,
  request: ResponsesRequest,
  names: ResponseNames,
): ResponseBody | undefined {
  const [choice] = listOf(completion, 'choices')
  const message = memberOf(choice, 'message')
  if (!isRecord(message)) return undefined
  const outcome = outcomeOf(memberOf(choice, 'finish_reason'))
  const status = outcome.status === 'completed' ? 'completed' : 'incomplete'
  const output: OutputItem[] = []
  const { reasoning, text, refusal, citations } = chatAnswerOf(message)
  const calls = listOf(message, 'tool_calls')
  const content: MessageItem['content'] = []
  if (text !== '') content.push(textPart(text, citations))
  if (refusal !== '') content.push({ type: 'refusal', refusal })
  // Anything followed by another item is complete, as in a stream.
  const statusOfContent = calls.length > 0 ? 'completed' : status
  if (reasoning !== '') {
    output.push({
      type: 'reasoning',
      id: names.newItemId('rs'),
      status: content.length > 0 ? 'completed' : statusOfContent,
      summary: [],
      content: [{ type: 'reasoning_text', text: reasoning }],
    })
  }
  if (content.length > 0) {
    output.push({ type: 'message', id: names.newItemId('msg'), role: 'assistant', status: statusOfContent, content })
  }
  for (const call of calls) {
    const called = memberOf(call, 'function')
    const name = textOf(called, 'name')
    if (name === undefined || name === '') return undefined
    output.push({
      ...newCallItem(names, textOf(call, 'id'), name),
      arguments: textOf(called, 'arguments') ?? '',
      status,
    })
  }
  const usage = usageOfChat(memberOf(completion, 'usage'))
  return responseOf(request, names, outcome, output, usage, textOf(completion, 'service_tier'))
}

/** An event of a streamed response. Its `type` is also the event name on the wire. */
export type ResponseEvent = { type: string; sequence_number: number } & Record<string, unknown>

/** Maximum items of a streamed response, each of which is sent three times: many more than models produce. */
const ITEMS_MAX = 1_000

/** Translates the events of a streamed chat completion into those of a response. */
export interface ResponseEventTranslator {
  /** Translates the next event, including `[DONE]`. Never throws; after the end it returns nothing. */
  push(event: Pick<SseEvent, 'data'>): ResponseEvent[]
  /** Translates a chunk that is already parsed. */
  pushChunk(chunk: unknown): ResponseEvent[]
  /** Ends the response with the stream: by its finish reason, or as failed if there was none. Returns nothing after the end. */
  end(): ResponseEvent[]
}

interface OpenCall {
  item: FunctionCallItem
  outputIndex: number
}

/** The calls that share an `index`: some upstreams give all calls the same one, or none. */
interface CallGroup {
  byId: Map<string, OpenCall>
  last: OpenCall
}

/**
 * Creates a translator for one streamed chat completion. A message or reasoning is closed when something else begins; calls stay
 * open until the end, since their pieces may be interleaved.
 *
 * A piece of a call belongs to the call of its `index` and `id`; without an id, to the last call of that index, unless it names
 * another function. A new id with a name begins a new call (lmdeploy issue 3412 shows such streams). A new id without a name
 * continues the last one: a call needs a name. A call without an id gets the id of its item.
 *
 * Citations annotate the open text; those that arrive before any text are held until it opens.
 */
export function createResponseEventTranslator(
  request: ResponsesRequest,
  names: ResponseNames,
): ResponseEventTranslator {
  const output: OutputItem[] = []
  const calls: OpenCall[] = []
  const callGroups = new Map<unknown, CallGroup>()
  let waitingCitations: UrlCitation[] = []
  let sequenceNumber = 0
  let hasBegun = false
  let hasEnded = false
  let finishReason: string | undefined
  let usage: Usage | undefined
  let serviceTier: string | undefined
  let lostArguments = false
  let hasTooMany = false
  let openItem: MessageItem | ReasoningItem | undefined
  let events: ResponseEvent[] = []

  function emit(type: string, members: Record<string, unknown>): void {
    events.push({ type, sequence_number: sequenceNumber, ...members })
    sequenceNumber += 1
  }

  function snapshot(outcome: Outcome): ResponseBody {
    return responseOf(request, names, outcome, structuredClone(output), usage, serviceTier)
  }

  function begin(): void {
    if (hasBegun) return
    hasBegun = true
    const response = snapshot({ status: 'in_progress', error: null, incomplete_details: null })
    emit('response.created', { response })
    emit('response.in_progress', { response })
  }

  function addItem(item: OutputItem): number {
    if (output.length === ITEMS_MAX) hasTooMany = true
    output.push(item)
    const outputIndex = output.length - 1
    emit('response.output_item.added', { output_index: outputIndex, item: structuredClone(item) })
    return outputIndex
  }

  /** The position of the open item's last part, as in its events. The open item is the last one added. */
  function placeOf(item: MessageItem | ReasoningItem): Record<string, unknown> {
    return {
      item_id: item.id,
      output_index: output.length - 1,
      content_index: item.content.length - 1,
    }
  }

  function closePart(item: MessageItem | ReasoningItem): void {
    const part = item.content.at(-1)
    if (part === undefined) return
    const place = placeOf(item)
    switch (part.type) {
      case 'output_text':
        emit('response.output_text.done', { ...place, text: part.text, logprobs: [] })
        break
      case 'refusal':
        emit('response.refusal.done', { ...place, refusal: part.refusal })
        break
      case 'reasoning_text':
        emit('response.reasoning_text.done', { ...place, text: part.text })
        break
    }
    emit('response.content_part.done', { ...place, part: structuredClone(part) })
  }

  function closeItem(status: ItemStatus): void {
    if (openItem === undefined) return
    const item = openItem
    openItem = undefined
    closePart(item)
    item.status = status
    emit('response.output_item.done', { output_index: output.length - 1, item: structuredClone(item) })
  }

  function addReasoning(delta: string): void {
    if (openItem?.type !== 'reasoning') {
      closeItem('completed')
      openItem = { type: 'reasoning', id: names.newItemId('rs'), status: 'in_progress', summary: [], content: [] }
      addItem(openItem)
      openItem.content.push({ type: 'reasoning_text', text: '' })
      emit('response.content_part.added', { ...placeOf(openItem), part: { type: 'reasoning_text', text: '' } })
    }
    const part = openItem.content.at(-1)
    if (part !== undefined) part.text += delta
    emit('response.reasoning_text.delta', { ...placeOf(openItem), delta })
  }

  function openMessage(): MessageItem {
    if (openItem?.type === 'message') return openItem
    closeItem('completed')
    const item: MessageItem = {
      type: 'message',
      id: names.newItemId('msg'),
      role: 'assistant',
      status: 'in_progress',
      content: [],
    }
    addItem(item)
    openItem = item
    return item
  }

  function addText(delta: string): void {
    const item = openMessage()
    let part = item.content.at(-1)
    if (part?.type !== 'output_text') {
      closePart(item)
      part = textPart('')
      item.content.push(part)
      emit('response.content_part.added', { ...placeOf(item), part: structuredClone(part) })
    }
    part.text += delta
    emit('response.output_text.delta', { ...placeOf(item), delta, logprobs: [] })
  }

  function addCitations(citations: UrlCitation[]): void {
    const part = openItem?.content.at(-1)
    if (openItem?.type !== 'message' || part?.type !== 'output_text') {
      for (const citation of citations) waitingCitations.push(citation)
      return
    }
    const waited = waitingCitations
    waitingCitations = []
    for (const annotation of [...waited, ...citations]) {
      part.annotations.push(annotation)
      emit('response.output_text.annotation.added', {
        ...placeOf(openItem),
        annotation_index: part.annotations.length - 1,
        annotation,
      })
    }
  }

  function addRefusal(delta: string): void {
    const item = openMessage()
    let part = item.content.at(-1)
    if (part?.type !== 'refusal') {
      closePart(item)
      part = { type: 'refusal', refusal: '' }
      item.content.push(part)
      emit('response.content_part.added', { ...placeOf(item), part: { ...part } })
    }
    part.refusal += delta
    emit('response.refusal.delta', { ...placeOf(item), delta })
  }

  function openCall(callId: string | undefined, name: string): OpenCall {
    closeItem('completed')
    const item = newCallItem(names, callId, name)
    const call = { item, outputIndex: addItem(item) }
    calls.push(call)
    return call
  }

  /** Returns the call that a piece belongs to, opened if new; undefined if the piece names neither an open call nor a new one. */
  function callOf(piece: unknown): OpenCall | undefined {
    const index = memberOf(piece, 'index')
    const callId = textOf(piece, 'id')
    const name = textOf(memberOf(piece, 'function'), 'name')
    const group = callGroups.get(index)
    if (group === undefined) {
      if (name === undefined || name === '') return undefined
      const call = openCall(callId, name)
      callGroups.set(index, { byId: new Map([[callId ?? '', call]]), last: call })
      return call
    }
    if (callId === undefined || callId === '') {
      if (name !== undefined && name !== '' && name !== group.last.item.name) group.last = openCall(undefined, name)
      return group.last
    }
    let call = group.byId.get(callId)
    if (call === undefined) {
      if (name === undefined || name === '') return group.last
      call = openCall(callId, name)
      group.byId.set(callId, call)
    }
    group.last = call
    return call
  }

  function addCallPiece(piece: unknown): void {
    const call = callOf(piece)
    const called = memberOf(piece, 'function')
    const delta = textOf(called, 'arguments') ?? ''
    if (delta === '') return
    if (call === undefined) {
      lostArguments = true
      return
    }
    call.item.arguments += delta
    emit('response.function_call_arguments.delta', {
      item_id: call.item.id,
      output_index: call.outputIndex,
      delta,
    })
  }

  function closeCalls(status: ItemStatus): void {
    for (const { item, outputIndex } of calls) {
      item.status = status
      emit('response.function_call_arguments.done', {
        item_id: item.id,
        output_index: outputIndex,
        arguments: item.arguments,
      })
      emit('response.output_item.done', { output_index: outputIndex, item: { ...item } })
    }
    calls.length = 0
  }

  function finish(outcome: Outcome): void {
    begin()
    hasEnded = true
    const status = outcome.status === 'completed' ? 'completed' : 'incomplete'
    closeItem(status)
    closeCalls(status)
    emit(`response.${outcome.status}`, { response: snapshot(outcome) })
  }

  function addChunk(chunk: unknown): void {
    usage = usageOfChat(memberOf(chunk, 'usage')) ?? usage
    serviceTier = textOf(chunk, 'service_tier') ?? serviceTier
    for (const choice of listOf(chunk, 'choices')) {
      if ((memberOf(choice, 'index') ?? 0) !== 0) continue
      const delta = memberOf(choice, 'delta')
      const { reasoning, text, refusal, citations } = chatAnswerOf(delta)
      if (reasoning !== '') addReasoning(reasoning)
      if (text !== '') addText(text)
      if (citations.length > 0 || waitingCitations.length > 0) addCitations(citations)
      if (refusal !== '') addRefusal(refusal)
      for (const piece of listOf(delta, 'tool_calls')) addCallPiece(piece)
      // Some upstreams send an empty finish reason with each chunk.
      finishReason = textOf(choice, 'finish_reason') || finishReason
    }
  }

  /** Runs a step unless the response has ended, and returns the events that the step emitted. */
  function collect(step: () => void): ResponseEvent[] {
    if (hasEnded) return []
    events = []
    step()
    return events
  }

  function fail(message: string): void {
    finish({ status: 'failed', error: { code: 'server_error', message }, incomplete_details: null })
  }

  function endStream(): void {
    if (finishReason === undefined) fail('The upstream ended the stream before its answer was complete')
    else finish(outcomeOf(finishReason))
  }

  function takeChunk(chunk: unknown): void {
    begin()
    if (memberOf(chunk, 'error') != null) {
      fail('The upstream failed')
      return
    }
    addChunk(chunk)
    if (lostArguments) fail('The upstream sent arguments of a call without its name')
    else if (hasTooMany) fail(`The upstream answered with more than ${ITEMS_MAX} items`)
  }

  return {
    push: ({ data }) =>
      collect(() => {
        if (data === undefined) return
        if (data.trim() === '[DONE]') {
          endStream()
          return
        }
        let chunk: unknown
        try {
          chunk = JSON.parse(data)
        } catch {
          fail('The upstream sent an event that is not JSON')
          return
        }
        takeChunk(chunk)
      }),
    pushChunk: (chunk) => collect(() => takeChunk(chunk)),
    end: () => collect(endStream),
  }
}
