import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:http'

/**
 * The Internet of the test: a program of its own within the network namespace. HTTP hosts that count connections and requests, and
 * a name server whose answer for `rebind.…` is public at first and private from then on. Controlled by messages; `reset` restores
 * both, `report` answers `{ connections, requests, questions }`.
 */
const [hosts = '[]', nameServer = '', names = '{}'] = process.argv.slice(2)
const addresses: Record<string, string[]> = JSON.parse(names)
let connections: Record<string, number> = {}
let requests: Record<string, number> = {}
let questions: Record<string, number> = {}

for (const address of JSON.parse(hosts) as string[]) {
  const server = createServer((request, response) => {
    requests[address] = (requests[address] ?? 0) + 1
    // Each request has to connect and resolve anew.
    response.setHeader('connection', 'close')
    const to = new URL(request.url ?? '/', 'http://a').searchParams.get('to')
    if (to === null) response.end(`I am ${address}`)
    else response.writeHead(302, { location: to }).end()
  })
  server.on('connection', () => (connections[address] = (connections[address] ?? 0) + 1))
  server.listen(80, address)
  await once(server, 'listening')
}

/** Answers A queries for the names it knows; all others get an empty answer. */
const dns = createSocket('udp4', (question, from) => {
  const labels: string[] = []
  let offset = 12
  while ((question[offset] ?? 0) > 0) {
    const length = question[offset] ?? 0
    labels.push(question.toString('latin1', offset + 1, offset + 1 + length))
    offset += length + 1
  }
  const isForIpv4 = question.readUInt16BE(offset + 1) === 1
  const name = labels.join('.').toLowerCase()
  const known = isForIpv4 ? (addresses[name] ?? []) : []
  let answers = known
  if (isForIpv4) {
    questions[name] = (questions[name] ?? 0) + 1
    if (name.startsWith('rebind.')) answers = known.slice(questions[name] === 1 ? 0 : 1).slice(0, 1)
  }
  const head = Buffer.from(question.subarray(0, 12))
  head.writeUInt16BE(0x8180, 2)
  head.writeUInt16BE(answers.length, 6)
  head.writeUInt32BE(0, 8)
  const records = answers.map((address) =>
    Buffer.from([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split('.').map(Number)]),
  )
  dns.send(Buffer.concat([head, question.subarray(12, offset + 5), ...records]), from.port, from.address)
})
dns.bind(53, nameServer)
await once(dns, 'listening')

process.on('message', (message) => {
  if (message === 'report') process.send?.({ connections, requests, questions })
  else {
    connections = {}
    requests = {}
    questions = {}
    process.send?.('reset')
  }
})
process.send?.('ready')
