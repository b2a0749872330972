import { text } from 'node:stream/consumers'
import autocannon from 'autocannon'
import { fillPath, type LoadOrder, type LoadResult } from './send-load.ts'
import { createSigner, payloadHashOf } from './sign-request.ts'

// A program of its own, so that it has a core of its own. Reads a LoadOrder from stdin, writes a LoadResult to stdout.

const ADDRESSES = 4_096

const { origin, path, method, credentials, headers, body, forms, addressBlock, connections, seconds } = JSON.parse(
  await text(process.stdin),
) as LoadOrder

// Each connection has addresses of its own and goes through them in turn: no two requests under way share a counter.
const perConnection = Math.floor(ADDRESSES / connections)
const sign = credentials && createSigner(credentials, new URL(origin).host)
const payloadHash = payloadHashOf(body)
/** Whether no two requests are alike. Where they may be, they are signed and put together once. */
const isEachNew = path.includes('{request}')
const requestsOf = (connection: number): autocannon.Request[] => {
  const form = forms && new URLSearchParams(forms[connection])
  return Array.from({ length: perConnection }, (_, i) => {
    const address = connection * perConnection + i
    const from = { ...headers, 'x-forwarded-for': `10.${addressBlock}.${address >> 8}.${address & 255}` }
    const fill = () => {
      const filled = fillPath(path, address)
      return { path: filled, headers: { ...from, ...sign?.(method, filled, payloadHash) } }
    }
    return {
      method,
      ...fill(),
      ...(body !== undefined && { body }),
      ...(isEachNew && { setupRequest: (request) => ({ ...request, ...fill() }) }),
      ...(form && { setupRequest: (request) => ({ ...request, body: form.toString() }), onResponse: renew(form) }),
    }
  })
}

const renew =
  (form: URLSearchParams): autocannon.Request['onResponse'] =>
  (_, answer) => {
    const { refresh_token: token } = JSON.parse(answer) as { refresh_token?: string }
    if (token !== undefined) form.set('refresh_token', token)
  }

let connection = 0
const cpuBefore = process.cpuUsage()
const result = await autocannon({
  url: origin,
  connections,
  duration: seconds,
  setupClient: (client) => client.setRequests(requestsOf(connection++)),
})
const cpu = process.cpuUsage(cpuBefore)
const report: LoadResult = {
  requests: result.requests.total,
  seconds: result.duration,
  failures: result.non2xx + result.errors + result.timeouts,
  p50Ms: result.latency.p50,
  p99Ms: result.latency.p99,
  loadMakerBusy: (cpu.user + cpu.system) / 1_000_000 / result.duration,
}
process.stdout.write(JSON.stringify(report))
