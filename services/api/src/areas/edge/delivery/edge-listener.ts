import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { ApiError } from '@platform/errors/api-error'
import { FunctionFailure } from '@platform/function-runtime/function-runtime'
import { listen, type Listening } from '@platform/service/http-server'
import { observeRequest } from '@platform/service/metrics'
import { readBody } from '@platform/service/read-body'
import { textBody, unreadableRequest } from '@platform/service/unreadable-request'
import type { z } from 'zod'
import type { EdgeDeps } from '../deps.ts'
import { header } from '../../../http/exchange.ts'
import { sendChunk } from '../../../http/send-content.ts'
import { functionIdOf } from '../../deploy/deployments/asset-id.ts'
import { pairsOf } from './answer-headers.ts'
import { callFunction } from './call-function.ts'
import { ClientLeft, failureOf, sayFailure } from './deliver-function.ts'
import { askForUpgrade, join, unlessSilent, upgradedHead } from './deliver-upgrade.ts'
import {
  CRON_RUNS_PATH,
  cronRunRequest,
  FAILURE_HEADER,
  LEASE_HEADER,
  type LeaseAnswer,
  LEASES_PATH,
  leaseRequest,
  MESSAGE_MS,
  signedAnswer,
  SIGNATURE_HEADER,
  writeFailure,
} from './edge-messages.ts'
import { flushHead } from './flush-head.ts'
import { cleanAnswerHeaders } from './headers.ts'
import type { FunctionLease } from './function-lease.ts'
import type { PinnedSlots } from './pinned-slots.ts'
import { requestBody } from './request-body.ts'
import { responseOn } from './response-on.ts'
import { flatten } from './visit.ts'

/** A promised slot that is not used is released after this time. */
const PROMISED_MS = 10_000
const MESSAGE_BYTES_MAX = 16_384
/** A visitor's 16 KiB, plus the other edge's additions. */
const HEADER_BYTES_MAX = 65_536
const OPERATION = 'relayToSlot'
const CRON_OPERATION = 'runCronHere'

type ListenerDeps = Pick<EdgeDeps, 'now' | 'logger' | 'functions' | 'functionTimings' | 'membership' | 'edgeSigner'>

interface Promised {
  lease: FunctionLease
  deploymentId: string
  /** Path of the Function. */
  path: string
}

const ofConnection = ['connection', 'keep-alive', 'transfer-encoding', 'expect', LEASE_HEADER]

function headersOf(incoming: IncomingMessage, { lease }: Promised): Record<string, string | string[]> {
  const headers = { ...(incoming.headers as Record<string, string | string[]>), ...lease.headers }
  for (const name of ofConnection) delete headers[name]
  return headers
}

const hostnameOf = (incoming: IncomingMessage): string => (incoming.headers.host ?? '').replace(/:\d+$/, '')

function answerWith(outgoing: ServerResponse, status: number, headers: Record<string, string> = {}, body = ''): void {
  outgoing.writeHead(status, { ...headers, 'content-length': String(Buffer.byteLength(body)) }).end(body)
}

/** Makes the request of a cron's run, and resolves when it has ended; undefined if another edge has the run, or it has ended. */
export type TakeCronRun = (runId: string) => Promise<{ end: Promise<void> } | undefined>

/**
 * Listens for the other edges: promises them slots for pins that this edge owns, and forwards their requests to those. It also
 * accepts runs of crons. Callers must hold the master keys. The network between edges must be the operator's own, since visitors'
 * requests cross it unencrypted.
 *
 * Stop it after `membership.leave()`: edges that still ask are told that the pin is another's, and look it up again.
 */
export async function startEdgeListener(
  deps: ListenerDeps,
  pinned: PinnedSlots,
  takeCronRun: TakeCronRun,
  address: { host: string; port: number },
): Promise<Listening> {
  const { now, logger, functions, functionTimings: timings, membership, edgeSigner } = deps
  const promises = new Map<string, Promised & { timer: NodeJS.Timeout }>()

  function take(incoming: IncomingMessage): Promised | undefined {
    const id = header(incoming, LEASE_HEADER) ?? ''
    const promised = promises.get(id)
    promises.delete(id)
    clearTimeout(promised?.timer)
    return promised
  }

  /** Reads a recently signed message; answers the request if there is none. */
  async function readMessage<S extends typeof leaseRequest | typeof cronRunRequest>(
    schema: S,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
  ): Promise<{ text: string; message: z.output<S> } | undefined> {
    const text = (await readBody(incoming, MESSAGE_BYTES_MAX)).toString()
    const signature = header(incoming, SIGNATURE_HEADER)
    if (signature !== undefined && edgeSigner.verify(text, signature)) {
      const message = schema.parse(JSON.parse(text)) as z.output<S>
      if (Math.abs(now().getTime() - message.sentAt) <= MESSAGE_MS) return { text, message }
    }
    answerWith(outgoing, 401)
    return undefined
  }

  async function promise(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const read = await readMessage(leaseRequest, incoming, outgoing)
    if (!read) return
    const { text, message } = read
    const { edgeId, deploymentId, path } = message
    const fn = { id: functionIdOf(deploymentId, path), deploymentId, path }
    const pin = { keyHash: Buffer.from(message.keyHash, 'base64url'), expiresAt: new Date(message.expiresAt) }
    const lease = edgeId === membership.id ? await pinned.acquireOwn(fn, pin) : undefined
    if (!lease) {
      answerWith(outgoing, 421)
      return
    }
    const id = randomBytes(24).toString('base64url')
    const timer = setTimeout(() => {
      promises.delete(id)
      lease.release()
    }, PROMISED_MS).unref()
    promises.set(id, { lease, deploymentId, path, timer })
    const answer: LeaseAnswer = {
      lease: id,
      slot: lease.slot,
      instance: lease.instance,
      isRestarted: lease.headers?.['x-sticky-restarted'] !== undefined,
    }
    const body = JSON.stringify(answer)
    const signature = edgeSigner.sign(signedAnswer(text, body))
    answerWith(outgoing, 201, { 'content-type': 'application/json', [SIGNATURE_HEADER]: signature }, body)
  }

  async function runCron(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const read = await readMessage(cronRunRequest, incoming, outgoing)
    if (!read) return
    const { edgeId, runId } = read.message
    const run = edgeId === membership.id ? await takeCronRun(runId) : undefined
    if (!run) {
      answerWith(outgoing, 421)
      return
    }
    outgoing.writeHead(202)
    flushHead(outgoing)
    await run.end
    outgoing.end()
  }

  function relay(promised: Promised, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { 'content-length': length, 'transfer-encoding': encoding } = incoming.headers
    const body = length !== undefined || encoding !== undefined ? requestBody(incoming, outgoing) : null
    const call = {
      method: incoming.method ?? 'GET',
      path: incoming.url ?? '/',
      headers: headersOf(incoming, promised),
      body,
    }
    return new Promise((resolve, reject) => {
      const control = callFunction(promised.lease, call, timings, {
        isClientDue: () => body?.readableLength === 0 && !incoming.complete && incoming.readableLength === 0,
        onHead(status, received) {
          outgoing.writeHead(status, flatten(cleanAnswerHeaders(received, hostnameOf(incoming))))
          if (!received.some(([name]) => name === 'content-length')) flushHead(outgoing)
        },
        onData(chunk) {
          if (outgoing.write(chunk)) return true
          outgoing.once('drain', () => control.resume())
          return false
        },
        onEnd() {
          outgoing.end()
          resolve()
        },
        onError: reject,
      })
      outgoing.once('close', () => {
        if (!outgoing.writableFinished) control.abort(new ClientLeft())
      })
    })
  }

  async function relayUpgrade(promised: Promised, incoming: IncomingMessage, outgoing: ServerResponse, head: Buffer) {
    const { socket } = incoming
    const { lease } = promised
    const headers = headersOf(incoming, promised)
    const call = { method: 'GET', path: incoming.url ?? '/', headers: { ...headers, connection: 'upgrade' } }
    const { response, upgraded } = await askForUpgrade(socket, lease, call, timings)
    const received = cleanAnswerHeaders(pairsOf(response.headers), hostnameOf(incoming))
    if (upgraded) {
      lease.countAsStream()
      outgoing.detachSocket(socket)
      socket.write(upgradedHead(received), 'latin1')
      await new Promise<void>((resolve) => join(socket, upgraded, head, () => resolve()))
      return
    }
    outgoing.writeHead(response.statusCode ?? 502, [...flatten(received), 'connection', 'close'])
    for await (const chunk of unlessSilent(response, socket, timings.silentMs)) await sendChunk(outgoing, chunk)
    outgoing.end()
  }

  /** Reports the error to the other edge, or cuts off an answer that had begun. */
  async function fail(
    promised: Promised | undefined,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    error: Error,
  ) {
    if (error instanceof ClientLeft || incoming.socket.destroyed) return
    if (error instanceof ApiError && error.status < 500) {
      answerWith(outgoing, error.status, { connection: 'close' })
      return
    }
    const failure = promised ? await failureOf(error, promised.lease) : error
    if (promised && failure instanceof FunctionFailure)
      sayFailure(functions, promised, promised.lease, header(incoming, 'x-request-id'), failure)
    else if (!(failure instanceof FunctionFailure)) logger.warn({ err: error }, 'a request of another edge failed')
    if (outgoing.headersSent) outgoing.destroy()
    else answerWith(outgoing, 502, { [FAILURE_HEADER]: writeFailure(failure), connection: 'close' })
  }

  async function serve(incoming: IncomingMessage, outgoing: ServerResponse, head?: Buffer): Promise<void> {
    const startedAt = performance.now()
    const promised = take(incoming)
    try {
      if (promised && head) await relayUpgrade(promised, incoming, outgoing, head)
      else if (promised) await relay(promised, incoming, outgoing)
      else if (incoming.headers[LEASE_HEADER] !== undefined)
        throw new Error('Nothing is promised by this name any more')
      else if (incoming.method === 'POST' && incoming.url === LEASES_PATH) await promise(incoming, outgoing)
      else if (incoming.method === 'POST' && incoming.url === CRON_RUNS_PATH) await runCron(incoming, outgoing)
      else answerWith(outgoing, 404)
    } catch (error) {
      await fail(promised, incoming, outgoing, error as Error)
    } finally {
      promised?.lease.release()
      const operation = incoming.url === CRON_RUNS_PATH ? CRON_OPERATION : OPERATION
      observeRequest(operation, outgoing.statusCode, performance.now() - startedAt)
    }
  }

  const server = await listen(
    (incoming, outgoing) => void serve(incoming, outgoing),
    address.host,
    address.port,
    // What it relays may have any method.
    unreadableRequest(logger, 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS', textBody).refusal,
    {
      // Relayed requests may take their time; edges' own messages are a single line.
      requestTimeoutMs: 0,
      headerBytesMax: HEADER_BYTES_MAX,
      isUpgrade: ({ headers }) => headers[LEASE_HEADER] !== undefined && headers.upgrade === 'websocket',
      onUpgrade: (incoming, socket, head) => void serve(incoming, responseOn(incoming, socket), head),
    },
  )
  return server
}
