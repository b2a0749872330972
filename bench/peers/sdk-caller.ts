import { createServer } from 'node:http'
import { getOrganization, Platform, staticToken } from '@platform/sdk'
import { readSettings } from './settings.ts'

// A program that calls an API one call after the other, by the SDK or by bare `fetch`, for as many seconds as it is told:
// GET /?seconds=5 answers how many calls those were.

const { port, target, how, token } = readSettings('target', 'how', 'token')
const id = '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10'
const platform = new Platform({ baseUrl: target, credential: staticToken(token) })

async function callByFetch(): Promise<unknown> {
  const answer = await fetch(`${target}/organizations/${id}`, { headers: { authorization: `Bearer ${token}` } })
  if (!answer.ok) throw new Error(`It was answered ${answer.status}`)
  return answer.json()
}
const call = how === 'sdk' ? () => getOrganization(platform, { id }) : callByFetch

createServer((request, response) => {
  void (async () => {
    const seconds = Number(new URL(request.url ?? '/', 'http://localhost').searchParams.get('seconds'))
    let calls = 0
    for (const endsAt = performance.now() + seconds * 1_000; performance.now() < endsAt; calls++) await call()
    response.end(String(calls))
  })()
}).listen(port, '127.0.0.1')
