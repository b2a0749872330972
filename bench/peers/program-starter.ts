import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { readSettings } from './settings.ts'

// Starts a program again and again, one after the other, for as many seconds as it is told: GET /?seconds=5 answers how often it
// ran. arguments: JSON of them, for Node.

const { port, arguments: given, home } = readSettings('arguments', 'home')
const args = JSON.parse(given) as string[]

createServer((request, response) => {
  void (async () => {
    const seconds = Number(new URL(request.url ?? '/', 'http://localhost').searchParams.get('seconds'))
    let runs = 0
    for (const endsAt = performance.now() + seconds * 1_000; performance.now() < endsAt; runs++) {
      const child = spawn(process.execPath, args, { stdio: 'ignore', env: { HOME: home } })
      const [code] = (await once(child, 'exit')) as [number]
      if (code !== 0) throw new Error(`It ended with ${code}`)
    }
    response.end(String(runs))
  })().catch((error: Error) => response.writeHead(500).end(error.message))
}).listen(port, '127.0.0.1')
