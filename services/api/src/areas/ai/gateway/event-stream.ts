import type { ServerResponse } from 'node:http'
import { describeAiFailure } from '@platform/errors/render-error'
import type { StreamProtocol } from './providers/stream-reader.ts'

const streamHeaders = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  // For nginx and similar proxies: they must not buffer events.
  'x-accel-buffering': 'no',
}

/** The stream of events to a client, whichever provider they come from. */
export interface EventStream {
  outgoing: ServerResponse
  /** True once the status is on its way: a failure is an event then. */
  readonly hasBegun: boolean
  /** Writes whole events. Returns false if the reader is slower. */
  write(events: Uint8Array): boolean
  /**
   * Ends the stream with the failure as an event of its protocol.
   *
   * before: what is still to be sent. place: the number of events before it.
   */
  fail(failure: unknown, options?: { before?: Uint8Array | undefined; place?: number }): void
  end(): void
  /** Writes no more comments. */
  stop(): void
}

/**
 * Opens the stream to a client. The head goes out with the first bytes, so that a failure before them is a status; whenever nothing
 * was sent for `pingMs`, a comment goes out, since proxies cut connections that are silent.
 */
export function openEventStream(
  outgoing: ServerResponse,
  { headers, protocol, pingMs }: { headers: Record<string, string>; protocol: StreamProtocol; pingMs: number },
): EventStream {
  function write(bytes: Uint8Array | string): boolean {
    if (!outgoing.headersSent) outgoing.writeHead(200, { ...headers, ...streamHeaders })
    return outgoing.write(bytes)
  }
  const ping = setInterval(() => outgoing.destroyed || write(': ping\n\n'), pingMs)
  const stop = () => clearInterval(ping)
  return {
    outgoing,
    get hasBegun() {
      return outgoing.headersSent
    },
    write(events) {
      ping.refresh()
      return write(events)
    },
    fail(failure, { before, place = 0 } = {}) {
      const { message, type, param, code } = describeAiFailure(failure)
      const event = protocol.failure({ message, type, param, code }, place)
      stop()
      // A reader that is blocked would not read it.
      if (outgoing.writableNeedDrain) return void outgoing.destroy()
      if (before) write(before)
      outgoing.end(event)
    },
    end() {
      stop()
      outgoing.end()
    },
    stop,
  }
}
