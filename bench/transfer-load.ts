import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { fillPath } from './send-load.ts'
import type { TransferOrder, TransferResult } from './send-transfers.ts'
import { createSigner, payloadHashOf } from './sign-request.ts'

// A program of its own, so that it has a core of its own. Reads a TransferOrder from stdin, writes a TransferResult to stdout.

const { origin, path, how, mebibytes, connections, seconds } = JSON.parse(await text(process.stdin)) as TransferOrder
const MEBIBYTE = 1_048_576
const chunk = randomBytes(MEBIBYTE)
const length = mebibytes * MEBIBYTE
const agent = new Agent({ keepAlive: true, maxSockets: connections })

function hashOfBody(): string {
  const sha256 = createHash('sha256')
  for (let n = 0; n < mebibytes; n++) sha256.update(chunk)
  return sha256.digest('hex')
}

/** Sends a request and gives the answer once its head is there. Throws unless it is a 2xx. */
async function send(method: string, url: string, headers: Record<string, string>, chunks: number) {
  const length = method === 'GET' ? {} : { 'content-length': String(chunks * MEBIBYTE) }
  const sent = request(url, { method, agent, headers: { ...headers, ...length } })
  const answered = once(sent, 'response') as Promise<[IncomingMessage]>
  answered.catch(() => {}) // awaited below, unless writing fails first
  for (let n = 0; n < chunks; n++) if (!sent.write(chunk)) await Promise.race([once(sent, 'drain'), answered])
  sent.end()
  const [answer] = await answered
  const { statusCode = 0 } = answer
  if (statusCode < 200 || statusCode > 299) throw new Error(`${origin} answered ${statusCode}: ${await text(answer)}`)
  return answer
}

async function drain(answer: IncomingMessage): Promise<number> {
  let bytes = 0
  answer.on('data', (data: Buffer) => (bytes += data.length))
  await once(answer, 'end')
  return bytes
}

function transferOnce(): () => Promise<void> {
  if (how.kind === 'tus') {
    const { headers, metadata } = how
    const common = { ...headers, 'tus-resumable': '1.0.0' }
    const encode = (value: string) => Buffer.from(fillPath(value, 0)).toString('base64')
    return async () => {
      const named = Object.entries(metadata).map(([name, value]) => `${name} ${encode(value)}`)
      const creation = { ...common, 'upload-length': String(length), 'upload-metadata': named.join(',') }
      const created = await send('POST', origin + path, creation, 0)
      await drain(created)
      const { pathname } = new URL(created.headers.location ?? '', origin)
      const patch = { ...common, 'upload-offset': '0', 'content-type': 'application/offset+octet-stream' }
      await drain(await send('PATCH', origin + pathname, patch, mebibytes))
    }
  }
  const { kind, credentials } = how
  const sign = createSigner(credentials, new URL(origin).host)
  const payloadHash = kind === 'PUT' ? hashOfBody() : payloadHashOf(undefined)
  return async () => {
    const filled = fillPath(path, 0)
    const answer = await send(kind, origin + filled, sign(kind, filled, payloadHash), kind === 'PUT' ? mebibytes : 0)
    const bytes = await drain(answer)
    if (kind === 'GET' && bytes !== length) throw new Error(`${origin} sent ${bytes} bytes of ${length}`)
  }
}

const transfer = transferOnce()
const took: number[] = []
const cpuBefore = process.cpuUsage()
const startedAt = performance.now()
async function repeat(): Promise<void> {
  while (performance.now() - startedAt < seconds * 1_000) {
    const sentAt = performance.now()
    await transfer()
    took.push(performance.now() - sentAt)
  }
}
await Promise.all(Array.from({ length: connections }, repeat))
const tookSeconds = (performance.now() - startedAt) / 1_000
const cpu = process.cpuUsage(cpuBefore)
agent.destroy()
const sorted = took.toSorted((a, b) => a - b)
const percentile = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? 0
const result: TransferResult = {
  perSecond: (took.length * mebibytes) / tookSeconds,
  seconds: tookSeconds,
  p50Ms: percentile(0.5),
  p99Ms: percentile(0.99),
  loadMakerBusy: (cpu.user + cpu.system) / 1_000_000 / tookSeconds,
}
process.stdout.write(JSON.stringify(result))
