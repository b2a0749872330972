import { Agent, type IncomingMessage, request as httpRequest, type ServerResponse } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { Logger } from '@platform/runtime/logger'
import { pipeline } from 'node:stream'
import type { DeploymentListener } from './platform-folders.ts'

/** Headers of the connection, and those in which a Function could claim another address. */
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
  // This server has answered it.
  'expect',
])

/** What says where a request ends and whom it is for stays, whatever Connection names: a body without a length would be the next request. */
const framing = new Set(['content-length', 'transfer-encoding', 'host'])

interface Options {
  /** Where the API listens for this process. */
  apiUrl: string
  /** The value of `x-platform-deployment`, by which the API counts a deployment as an address of its own. */
  signDeployment: (deploymentId: string) => string
  logger: Logger
}

/**
 * Sends what a Function asks of `PLATFORM_API_URL` to the API, byte for byte but for the headers of the connection: its host and its
 * path stay as they are, since S3 signs both. 502 where the API cannot be reached.
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
        // A client that leaves, and an API that breaks off, end the other side too.
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
      // A pipelined request waits for its turn: one connection of a Function takes one to the API.
      if (outgoing.socket) relay(deploymentId, incoming, outgoing)
      else outgoing.once('socket', () => relay(deploymentId, incoming, outgoing))
    },
    close() {
      agent.destroy()
    },
  }
}
