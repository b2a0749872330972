import type { LookupAddress } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { callbackify } from 'node:util'
import { buildConnector } from 'undici'
import { hostOf, RefusedAddress, requireAllowed } from './check-url.ts'

/** Resolves all addresses of a name. */
export type Lookup = (hostname: string) => Promise<LookupAddress[]>

/**
 * Connects only to allowed addresses. A name is resolved once per connection, and the connection goes to the checked address, so
 * that a second answer of a name server cannot intervene. The address of the connected socket is checked once more.
 */
export function createGuardedConnector(
  lookup: Lookup,
  isAllowed: (address: string) => boolean,
  timeoutMs: number,
): buildConnector.connector {
  const resolveAllowed = callbackify(async (hostname: string): Promise<LookupAddress[]> => {
    const addresses = await lookup(hostname)
    const judged = addresses.map(({ address }) => address)
    requireAllowed(hostOf({ hostname }), judged, isAllowed)
    return addresses
  })
  const guardedLookup: LookupFunction = (hostname, { all }, callback) =>
    resolveAllowed(hostname, (error, addresses) => {
      const [first] = addresses ?? []
      if (error !== null || first === undefined) callback(error, [])
      else if (all === true) callback(null, addresses)
      else callback(null, first.address, first.family)
    })
  const connect = buildConnector({ lookup: guardedLookup, timeout: timeoutMs, allowH2: false })

  return (options, callback) => {
    const host = hostOf(options)
    connect(options, (error, socket) => {
      if (error !== null) {
        callback(error, null)
        return
      }
      // IP addresses in a URL are never looked up; the socket's address is certain.
      if (socket.remoteAddress === undefined || !isAllowed(socket.remoteAddress)) {
        socket.destroy()
        callback(new RefusedAddress(`${host} is not on the public Internet`), null)
      } else callback(null, socket)
    })
  }
}
