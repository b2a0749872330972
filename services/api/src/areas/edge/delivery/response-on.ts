import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Creates the response for a request whose connection the server handed over as an upgrade. The connection ends with it. */
export function responseOn(incoming: IncomingMessage, socket: Socket): ServerResponse {
  const outgoing = new ServerResponse(incoming)
  outgoing.shouldKeepAlive = false
  outgoing.assignSocket(socket)
  outgoing.once('finish', () => socket.end())
  // An upgraded connection no longer belongs to the response.
  socket.once('close', () => void (outgoing.socket && outgoing.destroy()))
  socket.on('error', () => {})
  return outgoing
}
