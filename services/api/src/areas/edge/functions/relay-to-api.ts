import { Agent, type IncomingMessage, request as httpRequest, type ServerResponse } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { Logger } from '@platform/runtime/logger'
import { pipeline } from 'node:stream'
import type { DeploymentListener } from './platform-folders.ts'

/** Hop-by-hop headers, and headers with which a Function could claim another address. */
const withheld = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'upgrade',
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-real-ip',
  'x-platform-deployment',
  // This server has already handled it.
  'expect',
])

/**
 * Headers for framing and routing stay, whatever Connection names: a body without a length would be parsed as the next request.
 */
const framing = new Set(['content-length', 'transfer-encoding', 'host'])

interface Options {
  /** Where the API listens for this process. */
  apiUrl: string
  /** The value of `x-platform-deployment`, by which the API rate-limits each deployment like an address. */
  signDeployment: (deploymentId: string) => string
  logger: Logger
}

/**
 * Relays Functions' requests to `PLATFORM_API_URL`, byte for byte except for hop-by-hop headers. Host and path stay unchanged,
 * since S3 signs both. Answers 502 if the API cannot be reached.
 */
export function openApiRelay({ apiUrl, signDeployment, logger }: Options): {
  listener: DeploymentListener
  close(): void
} {
  const url = new URL(apiUrl)
  const isHttps = url.protocol === 'https:'
  const send = isHttps ? httpsRequest : httpRequest
  const options = { keepAlive: true, maxFreeSockets: 32, timeout: 120_000 }
  const agent = isHttps ? new HttpsAgent(options) : new Agent(options)
  function relay(deploymentId: string, incoming: IncomingMessage, outgoing: ServerResponse): void {
    const headers: string[] = []
    const { rawHeaders } = incoming
    const named = (incoming.headers.connection ?? '')
      .split(',')
      .map((name) => name.trim().toLowerCase())
      .filter((name) => !framing.has(name))
    for (let n = 0; n + 1 < rawHeaders.length; n += 2) {
      const [name = '', value = ''] = [rawHeaders[n], rawHeaders[n + 1]]
      if (!withheld.has(name.toLowerCase()) && !named.includes(name.toLowerCase())) headers.push(name, value)
    }
    headers.push('x-platform-deployment', signDeployment(deploymentId))
    const upstreamRequest = send(
      {
        agent,
        host: url.hostname,
        port: url.port,
        method: incoming.method,
        path: incoming.url,
        headers,
        setHost: false,
      },
      (answer) => {
        const kept: string[] = []
        for (let n = 0; n + 1 < answer.rawHeaders.length; n += 2) {
          const [name = '', value = ''] = [answer.rawHeaders[n], answer.rawHeaders[n + 1]]
          if (!/^(?:connection|keep-alive|transfer-encoding)$/i.test(name)) kept.push(name, value)
        }
        outgoing.writeHead(answer.statusCode ?? 502, kept)
        // If the client leaves or the API breaks off, the other side ends too.
        pipeline(answer, outgoing, () => {})
      },
    )
    upstreamRequest.once('error', (error) => {
      if (outgoing.destroyed) return
      if (outgoing.headersSent) outgoing.destroy()
      else {
        logger.warn({ err: error, deploymentId }, 'the API cannot be reached for a Function')
        outgoing
          .writeHead(502, { 'content-type': 'application/json', connection: 'close' })
          .end('{"error":"The API cannot be reached"}')
      }
    })
    outgoing.once('close', () => {
      if (!outgoing.writableFinished) upstreamRequest.destroy()
    })
    incoming.pipe(upstreamRequest)
  }

  return {
    listener(deploymentId, incoming, outgoing) {
      // Pipelined requests wait: one connection of a Function uses one connection to the API.
      if (outgoing.socket) relay(deploymentId, incoming, outgoing)
      else outgoing.once('socket', () => relay(deploymentId, incoming, outgoing))
    },
    close() {
      agent.destroy()
    },
  }
}
