import type { Readable } from 'node:stream'
import type { HeaderPairs } from '@platform/build-output/router'
import { FunctionFailure } from '@platform/function-runtime/function-runtime'
import type { Dispatcher } from 'undici'
import { pairsOf } from './answer-headers.ts'
import { CollectedBody } from './collected-body.ts'
import type { FunctionLease } from './function-lease.ts'

/** How long a Function may be silent, in milliseconds. */
export interface FunctionTimings {
  /** From the last byte of the request to the first of the response. */
  firstByteMs: number
  /** Between two bytes, in either direction. Event streams may be silent indefinitely. */
  silentMs: number
}

/** Maximum informational responses (1xx) before the final one: nothing else limits a server that sends them endlessly. */
const INFORMATIONAL_MAX = 100

/** The request to a Function. */
export interface FunctionCall {
  method: string
  /** Path and query. */
  path: string
  headers: Record<string, string | string[]>
  body: Readable | null
}

/** Receives a response as it arrives. */
export interface CallSink {
  /** Called when bytes of the body have been sent to the Function. */
  onSent?(bytes: number): void
  /** True if the Function has everything that the client has sent of its body so far, and more is due. */
  isClientDue?(): boolean
  onHead(status: number, headers: HeaderPairs): void
  /** Returns false to pause until `resume` is called. */
  onData(chunk: Buffer): boolean
  onEnd(): void
  /**
   * The response broke off; if nothing of it was received, `onHead` was not called. Called at most once, and nothing is called
   * after it.
   */
  onError(error: Error): void
}

/** The client exceeded the silence timeout: it sent nothing of its body, or read nothing of the response. */
export class ClientSilent extends Error {}

/** A response is too long to be collected, or too many long ones are being collected. */
export class AnswerTooLong extends Error {}

/** A call in progress. */
export interface CallControl {
  resume(): void
  /** Ends the call: to the Function, its client disconnects. */
  abort(error: Error): void
}

/** Calls a slot, here or through another edge. Never throws: all failures go to the sink. */
export function callFunction(
  lease: FunctionLease,
  { method, path, headers, body }: FunctionCall,
  { firstByteMs, silentMs }: FunctionTimings,
  sink: CallSink,
): CallControl {
  let controller: Dispatcher.DispatchController | undefined
  let ended: Error | undefined
  let isOver = false
  let isPaused = false
  let isEvents = false
  let informational = 0
  const end = (error: Error): void => {
    ended ??= error
    controller?.abort(error)
  }
  const graceMs = lease.graceMs ?? 0
  const onSilent = (isHead: boolean) => (): void =>
    end(
      isPaused || sink.isClientDue?.()
        ? new ClientSilent()
        : isHead
          ? noFirstByte(firstByteMs)
          : silentAnswer(silentMs),
    )
  let timer: NodeJS.Timeout | undefined = setTimeout(onSilent(true), firstByteMs + graceMs)
  const stopWaiting = lease.whileWaiting?.(end)
  const over = (): boolean => {
    if (isOver) return false
    stopWaiting?.()
    clearTimeout(timer)
    return (isOver = true)
  }
  lease.dispatcher.dispatch(
    {
      origin: 'http://function',
      method,
      path,
      headers: lease.headers ? { ...headers, ...lease.headers } : headers,
      body,
      headersTimeout: 0,
      bodyTimeout: 0,
    },
    {
      onBodySent(chunk) {
        timer?.refresh()
        sink.onSent?.(chunk.length)
      },
      onRequestStart(started) {
        controller = started
        if (ended) started.abort(ended)
      },
      onResponseStart(_, status, received) {
        if (status < 200) {
          informational += 1
          if (informational > INFORMATIONAL_MAX) end(new Error(`It sent more than ${INFORMATIONAL_MAX} answers of 1xx`))
          return
        }
        clearTimeout(timer)
        const pairs = pairsOf(received)
        const failure = lease.failureIn?.(pairs)
        if (failure) {
          end(failure)
          return
        }
        isEvents = isEventStream(received['content-type'])
        if (isEvents) lease.countAsStream()
        timer = isEvents ? undefined : setTimeout(onSilent(false), silentMs + graceMs)
        sink.onHead(status, pairs)
      },
      onResponseData(current, chunk) {
        timer?.refresh()
        if (sink.onData(chunk)) return
        isPaused = true
        timer ??= setTimeout(onSilent(false), silentMs + graceMs)
        current.pause()
      },
      onResponseEnd() {
        if (over()) sink.onEnd()
      },
      onResponseError(_, error) {
        if (over()) sink.onError(ended ?? error)
      },
    },
  )
  const resume = (): void => {
    if (isOver || !isPaused) return
    isPaused = false
    if (isEvents) {
      clearTimeout(timer)
      timer = undefined
    } else timer?.refresh()
    controller?.resume()
  }
  return { resume, abort: end }
}

const seconds = (ms: number): string => `${ms / 1_000} s`
export const noFirstByte = (ms: number): FunctionFailure =>
  new FunctionFailure('function_timeout', `It sent no byte of an answer for ${seconds(ms)}.`)
export const silentAnswer = (ms: number): FunctionFailure =>
  new FunctionFailure('function_timeout', `Its answer was silent for ${seconds(ms)}.`)

/** True if a response is server-sent events, which may be silent indefinitely. */
export const isEventStream = (contentType: string | string[] | undefined): boolean =>
  String(contentType ?? '').startsWith('text/event-stream')

/**
 * Collects the whole response of a Function, for callers that need all of it. Rejects with the sink's error, and with
 * AnswerTooLong if it is longer, or if too many responses of its deployment are being collected.
 */
export async function readCall(
  lease: FunctionLease,
  call: FunctionCall,
  timings: FunctionTimings,
  deploymentId: string,
  bytesMax: number,
): Promise<{ status: number; headers: HeaderPairs; body: Buffer }> {
  const collected = new CollectedBody(deploymentId, bytesMax)
  let head = { status: 0, headers: [] as HeaderPairs }
  try {
    await new Promise<void>((resolve, reject) => {
      const control = callFunction(lease, call, timings, {
        onHead: (status, headers) => void (head = { status, headers }),
        onData(chunk) {
          if (!collected.add(chunk))
            control.abort(
              new AnswerTooLong(`The answer is longer than ${bytesMax} bytes, or one of too many long ones`),
            )
          return true
        },
        onEnd: resolve,
        onError: reject,
      })
    })
    return { ...head, body: collected.whole() ?? Buffer.alloc(0) }
  } finally {
    collected.forget()
  }
}
