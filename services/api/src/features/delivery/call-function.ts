import type { Readable } from 'node:stream'
import type { HeaderPairs } from '@platform/build-output/router'
import { FunctionFailure, type Lease } from '@platform/function-runtime/function-runtime'
import type { Dispatcher } from 'undici'
import { pairsOf } from './answer-headers.ts'

/** How long a Function may be silent, in milliseconds. */
export interface FunctionTimings {
  /** From the last byte of the request to the first of the answer. */
  firstByteMs: number
  /** Between two bytes, whichever way they go. Streams of events may be silent for as long as they like. */
  silentMs: number
}

/** What a Function is asked. */
export interface FunctionCall {
  method: string
  /** Path and query. */
  path: string
  headers: Record<string, string | string[]>
  body: Readable | null
}

/** Where an answer goes, as it comes. */
export interface CallSink {
  /** So many bytes of the body went to the Function. */
  onSent?(bytes: number): void
  onHead(status: number, headers: HeaderPairs): void
  /** false: no more until `resume` is called. */
  onData(chunk: Buffer): boolean
  onEnd(): void
  /** The answer breaks off; with nothing of it received, `onHead` was not called. Called at most once, and then nothing else is. */
  onError(error: Error): void
}

/** A call under way. */
export interface CallControl {
  resume(): void
  /** Ends the call: the Function sees its client go. */
  abort(error: Error): void
}

/** Calls a slot over its socket. It never throws: whatever fails is told to the sink. */
export function callFunction(
  { dispatcher }: Lease,
  { method, path, headers, body }: FunctionCall,
  { firstByteMs, silentMs }: FunctionTimings,
  sink: CallSink,
): CallControl {
  let controller: Dispatcher.DispatchController | undefined
  let ended: Error | undefined
  let isOver = false
  const seconds = (ms: number): string => `${ms / 1_000} s`
  const end = (error: Error): void => {
    ended ??= error
    controller?.abort(error)
  }
  const onSilent = (isHead: boolean) => (): void =>
    end(
      new FunctionFailure(
        'function_timeout',
        isHead
          ? `It sent no byte of an answer for ${seconds(firstByteMs)}.`
          : `Its answer was silent for ${seconds(silentMs)}.`,
      ),
    )
  let timer: NodeJS.Timeout | undefined = setTimeout(onSilent(true), firstByteMs)
  const over = (): boolean => {
    if (isOver) return false
    clearTimeout(timer)
    return (isOver = true)
  }
  dispatcher.dispatch(
    {
      origin: 'http://function',
      method,
      path,
      headers,
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
        if (status < 200) return
        clearTimeout(timer)
        const isEvents = String(received['content-type'] ?? '').startsWith('text/event-stream')
        timer = isEvents ? undefined : setTimeout(onSilent(false), silentMs)
        sink.onHead(status, pairsOf(received))
      },
      onResponseData(current, chunk) {
        timer?.refresh()
        if (!sink.onData(chunk)) current.pause()
      },
      onResponseEnd() {
        if (over()) sink.onEnd()
      },
      onResponseError(_, error) {
        if (over()) sink.onError(ended ?? error)
      },
    },
  )
  return { resume: () => controller?.resume(), abort: end }
}

/** The whole answer of a Function, for callers that cannot go on without it. Rejects with what the sink was told, or where it is longer. */
export function readCall(
  lease: Lease,
  call: FunctionCall,
  timings: FunctionTimings,
  bytesMax: number,
): Promise<{ status: number; headers: HeaderPairs; body: Buffer }> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let head = { status: 0, headers: [] as HeaderPairs }
    let length = 0
    const control = callFunction(lease, call, timings, {
      onHead: (status, headers) => void (head = { status, headers }),
      onData(chunk) {
        length += chunk.length
        if (length > bytesMax) control.abort(new Error(`The answer is longer than ${bytesMax} bytes`))
        else chunks.push(chunk)
        return true
      },
      onEnd: () => resolve({ ...head, body: Buffer.concat(chunks) }),
      onError: reject,
    })
  })
}
