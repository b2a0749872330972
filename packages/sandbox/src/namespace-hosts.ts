import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:http'

/**
 * The Internet of the test: a separate program in its own network namespace. Each host counts arrivals by TCP and UDP; an
 * HTTP request with `?to=` is redirected, and one with `?kept=` leaves its connection open; the name server resolves the names it
 * is given. `report` returns the counts since the last one.
 */
const [hosts = '[]', nameServer = '', names = '{}'] = process.argv.slice(2)
const addresses: Record<string, string> = JSON.parse(names)
let arrivals: Record<string, number> = {}

for (const { name, address, port } of JSON.parse(hosts) as { name: string; address: string; port: number }[]) {
  const arrive = (): void => void (arrivals[name] = (arrivals[name] ?? 0) + 1)
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? '/', 'http://a')
    const to = searchParams.get('to')
    if (!searchParams.has('kept')) response.setHeader('connection', 'close')
    if (to === null) response.end(`I am ${name}`)
    else response.writeHead(302, { location: to }).end()
  })
  server.on('connection', arrive)
  server.listen(port, address)
  await once(server, 'listening')
  const datagrams = createSocket(address.includes(':') ? 'udp6' : 'udp4', (_, from) => {
    arrive()
    datagrams.send('I am here', from.port, from.address)
  })
  datagrams.bind(port, address)
  await once(datagrams, 'listening')
}

const dns = createSocket('udp4', (question, from) => {
  const labels: string[] = []
  let offset = 12
  while ((question[offset] ?? 0) > 0) {
    const length = question[offset] ?? 0
    labels.push(question.toString('latin1', offset + 1, offset + 1 + length))
    offset += length + 1
  }
  const address = question.readUInt16BE(offset + 1) === 1 ? addresses[labels.join('.').toLowerCase()] : undefined
  const head = Buffer.from(question.subarray(0, 12))
  head.writeUInt16BE(address === undefined && !(labels.join('.').toLowerCase() in addresses) ? 0x8183 : 0x8180, 2)
  head.writeUInt16BE(address === undefined ? 0 : 1, 6)
  head.writeUInt32BE(0, 8)
  const record =
    address === undefined ? [] : [0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split('.').map(Number)]
  dns.send(Buffer.concat([head, question.subarray(12, offset + 5), Buffer.from(record)]), from.port, from.address)
})
dns.bind(53, nameServer)
await once(dns, 'listening')

process.on('message', () => {
  process.send?.(arrivals)
  arrivals = {}
})
process.send?.('ready')
