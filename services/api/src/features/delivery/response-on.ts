import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** The answer to a request whose connection the server gave away, since it asked for another protocol. The connection ends with it. */
export function responseOn(incoming: IncomingMessage, socket: Socket): ServerResponse {
  const outgoing = new ServerResponse(incoming)
  outgoing.shouldKeepAlive = false
  outgoing.assignSocket(socket)
  outgoing.once('finish', () => socket.end())
  // An upgraded connection is no longer the response's.
  socket.once('close', () => void (outgoing.socket && outgoing.destroy()))
  socket.on('error', () => {})
  return outgoing
}
