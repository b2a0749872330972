import { type RelayEnd, startRelay } from './relay.ts'

/**
 * A program for another network namespace: each message starts a relay, and is answered once that listens. A Unix socket belongs to no
 * network, so a relay with one at an end leads out of the namespace or into it.
 */
export interface RelayRequest {
  listen: RelayEnd
  to: RelayEnd
}

process.on('message', ({ listen, to }: RelayRequest) => {
  startRelay(listen, to).then(
    () => process.send?.({ value: null }),
    (error: unknown) => process.send?.({ error: String(error) }),
  )
})
process.send?.({ value: 'ready' })
