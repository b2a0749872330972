import { isRecord, listOf, memberOf, textOf } from './record.ts'
import type { ResponsesRequest } from './responses-request.ts'
import type { SseEvent } from './sse-scanner.ts'
import { type ResponseUsage, toResponseUsage, type Usage, usageOfChat } from './usage.ts'

type ItemStatus = 'in_progress' | 'completed' | 'incomplete'
interface TextPart {
  type: 'output_text'
  text: string
  annotations: never[]
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

/** A response (`POST /responses`) that was made of a chat completion. */
export interface ResponseBody {
  id: string
  object: 'response'
  created_at: number
  status: 'in_progress' | 'completed' | 'incomplete' | 'failed'
  access_programs: null
  background: false
  error: { code: 'server_error' | 'rate_limit_exceeded'; message: string } | null
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

/** What a response and its items are called by. `createdAt` is in seconds since 1970. */
export interface ResponseNames {
  id: string
  createdAt: number
  /** Makes the id of an item, which begins with the prefix and an underscore. */
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

const reasoningOf = (message: unknown): string =>
  textOf(message, 'reasoning_content') ?? textOf(message, 'reasoning') ?? ''
const textPart = (text: string): TextPart => ({ type: 'output_text', text, annotations: [], logprobs: [] })

/**
 * Says a chat completion as a response. `reasoning_content` becomes an item of reasoning before the message.
 *
 * It has all members of a response but `output_text`, which the SDK adds by itself.
 * Returns undefined where the value is no completion with a choice, or a call lacks its id or name.
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
  const reasoning = reasoningOf(message)
  if (reasoning !== '') {
    const content: ReasoningPart[] = [{ type: 'reasoning_text', text: reasoning }]
    output.push({ type: 'reasoning', id: names.newItemId('rs'), status: 'completed', summary: [], content })
  }
  const content: MessageItem['content'] = []
  const text = textOf(message, 'content') ?? ''
  const refusal = textOf(message, 'refusal') ?? ''
  if (text !== '') content.push(textPart(text))
  if (refusal !== '') content.push({ type: 'refusal', refusal })
  if (content.length > 0) {
    output.push({ type: 'message', id: names.newItemId('msg'), role: 'assistant', status, content })
  }
  for (const call of listOf(message, 'tool_calls')) {
    const called = memberOf(call, 'function')
    const callId = textOf(call, 'id')
    const name = textOf(called, 'name')
    if (callId === undefined || name === undefined) return undefined
    output.push({
      type: 'function_call',
      id: names.newItemId('fc'),
      call_id: callId,
      name,
      arguments: textOf(called, 'arguments') ?? '',
      status,
    })
  }
  const usage = usageOfChat(memberOf(completion, 'usage'))
  return responseOf(request, names, outcome, output, usage, textOf(completion, 'service_tier'))
}

/** An event of a streamed response. Its `type` is also the name of the event on the wire. */
export type ResponseEvent = { type: string; sequence_number: number } & Record<string, unknown>

/** Turns the events of a streamed chat completion into those of a response. */
export interface ResponseEventTranslator {
  /** Takes the next event, `[DONE]` included, and returns what it becomes. Never throws; after the end it returns nothing. */
  push(event: Pick<SseEvent, 'data'>): ResponseEvent[]
  /** Ends a stream that ended: as its finish reason says, or as failed where there was none. After the end it returns nothing. */
  end(): ResponseEvent[]
  /** Ends the response as failed. After the end it returns nothing. */
  fail(message: string, code?: 'server_error' | 'rate_limit_exceeded'): ResponseEvent[]
  /** What the upstream has reported so far. */
  usage(): Usage | undefined
}

interface OpenCall {
  item: FunctionCallItem
  outputIndex: number
}

/**
 * Makes a translator of one streamed chat completion. A message or reasoning is closed when something else begins; calls stay
 * open until the end, since their pieces may be mixed.
 */
export function createResponseEventTranslator(
  request: ResponsesRequest,
  names: ResponseNames,
): ResponseEventTranslator {
  const output: OutputItem[] = []
  const calls = new Map<unknown, OpenCall>()
  let sequenceNumber = 0
  let hasBegun = false
  let hasEnded = false
  let finishReason: unknown
  let usage: Usage | undefined
  let serviceTier: string | undefined
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
    output.push(item)
    const outputIndex = output.length - 1
    emit('response.output_item.added', { output_index: outputIndex, item: structuredClone(item) })
    return outputIndex
  }

  /** Where the last part of the open item is, as its events say it. Of all items the open one was added last. */
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
    emit('response.content_part.done', { ...place, part: { ...part } })
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
      emit('response.content_part.added', { ...placeOf(item), part: { ...part } })
    }
    part.text += delta
    emit('response.output_text.delta', { ...placeOf(item), delta, logprobs: [] })
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

  function addCallPiece(piece: unknown): void {
    const called = memberOf(piece, 'function')
    const index = memberOf(piece, 'index')
    let call = calls.get(index)
    if (call === undefined) {
      const callId = textOf(piece, 'id')
      const name = textOf(called, 'name')
      if (callId === undefined || name === undefined) return
      closeItem('completed')
      const item: FunctionCallItem = {
        type: 'function_call',
        id: names.newItemId('fc'),
        call_id: callId,
        name,
        arguments: '',
        status: 'in_progress',
      }
      call = { item, outputIndex: addItem(item) }
      calls.set(index, call)
    }
    const delta = textOf(called, 'arguments') ?? ''
    if (delta === '') return
    call.item.arguments += delta
    emit('response.function_call_arguments.delta', {
      item_id: call.item.id,
      output_index: call.outputIndex,
      delta,
    })
  }

  function closeCalls(status: ItemStatus): void {
    for (const { item, outputIndex } of calls.values()) {
      item.status = status
      emit('response.function_call_arguments.done', {
        item_id: item.id,
        output_index: outputIndex,
        arguments: item.arguments,
      })
      emit('response.output_item.done', { output_index: outputIndex, item: { ...item } })
    }
    calls.clear()
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
      const reasoning = reasoningOf(delta)
      const text = textOf(delta, 'content') ?? ''
      const refusal = textOf(delta, 'refusal') ?? ''
      if (reasoning !== '') addReasoning(reasoning)
      if (text !== '') addText(text)
      if (refusal !== '') addRefusal(refusal)
      for (const piece of listOf(delta, 'tool_calls')) addCallPiece(piece)
      finishReason = memberOf(choice, 'finish_reason') ?? finishReason
    }
  }

  /** Runs a step unless the response has ended, and returns the events that it emitted. */
  function collect(step: () => void): ResponseEvent[] {
    if (hasEnded) return []
    events = []
    step()
    return events
  }

  function failWith(message: string, code: 'server_error' | 'rate_limit_exceeded'): void {
    finish({ status: 'failed', error: { code, message }, incomplete_details: null })
  }

  function endStream(): void {
    if (finishReason == null) failWith('The upstream ended the stream before its answer was complete', 'server_error')
    else finish(outcomeOf(finishReason))
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
          failWith('The upstream sent an event that is not JSON', 'server_error')
          return
        }
        begin()
        if (memberOf(chunk, 'error') != null) failWith('The upstream failed', 'server_error')
        else addChunk(chunk)
      }),
    end: () => collect(endStream),
    fail: (message, code = 'server_error') => collect(() => failWith(message, code)),
    usage: () => usage,
  }
}
