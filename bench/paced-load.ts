import { Agent, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PacedOrder, PacedResult } from './send-paced-load.ts'

// A program of its own. Sends a load at a steady pace, whatever the answers take: reads a PacedOrder from stdin, writes a
// PacedResult to stdout.

const { seconds, ...load } = JSON.parse(await text(process.stdin)) as { seconds: number } & PacedOrder
/** The times of what is sent in the first second do not count: this program is not compiled yet, and nothing is connected. */
const UNTIMED_SECONDS = 1
/** Then it was not this pace that was measured. */
const BEHIND_MAX_MS = 250

const agent = new Agent({ keepAlive: true, maxSockets: 1_024 })

function send(
  method: string,
  url: string,
  headers: Record<string, string>,
  body: string | undefined,
): Promise<{ status: number; answer: string }> {
  const byte = () => Math.floor(Math.random() * 256)
  const from = `10.${100 + (byte() % 100)}.${byte()}.${byte()}`
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, agent, headers: { ...headers, 'x-forwarded-for': from } }, (incoming) => {
      text(incoming).then((answer) => resolve({ status: incoming.statusCode ?? 0, answer }), reject)
    })
    sent.on('error', reject).end(body)
  })
}

async function run({ method = 'POST', url, headers, forms, perSecond }: PacedOrder): Promise<PacedResult> {
  const free = forms.map((form) => new URLSearchParams(form))
  const startedAt = performance.now()
  const took: number[] = []
  const statuses: Record<string, number> = {}
  let behindMs = 0
  const sendOne = async (form: URLSearchParams): Promise<void> => {
    const sentAt = performance.now()
    const { status, answer } = await send(
      method,
      url,
      headers,
      method === 'GET' ? undefined : form.toString().replaceAll('RANDOM', crypto.randomUUID()),
    )
    if (sentAt - startedAt >= UNTIMED_SECONDS * 1_000) took.push(performance.now() - sentAt)
    statuses[status] = (statuses[status] ?? 0) + 1
    if (form.has('refresh_token'))
      form.set('refresh_token', (JSON.parse(answer) as { refresh_token: string }).refresh_token)
    free.push(form)
  }
  const sent: Promise<void>[] = []
  const allSeconds = UNTIMED_SECONDS + seconds
  for (let n = 0; n < perSecond * allSeconds; n++) {
    const dueIn = startedAt + (n * 1_000) / perSecond - performance.now()
    if (dueIn > 0) await sleep(dueIn)
    behindMs = Math.max(behindMs, -dueIn)
    const form = free.shift()
    if (!form) throw new Error(`${url} has not answered ${forms.length} requests`)
    sent.push(sendOne(form))
  }
  await Promise.all(sent)
  if (behindMs > BEHIND_MAX_MS) throw new Error(`The load maker fell behind by ${behindMs.toFixed(0)} ms`)
  const sorted = took.toSorted((a, b) => a - b)
  const percentile = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? 0
  return {
    perSecond: sent.length / allSeconds,
    seconds: allSeconds,
    p50Ms: percentile(0.5),
    p99Ms: percentile(0.99),
    statuses,
  }
}

process.stdout.write(JSON.stringify(await run(load)))
agent.destroy()
