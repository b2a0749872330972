import { strictEqual } from 'node:assert/strict'
import { once } from 'node:events'
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ChatServer, startChatServers } from '../ai-providers.ts'
import { moveTo } from '../cores.ts'
import { percentiles } from '../percentiles.ts'
import { memoryOfServer } from '../process-costs.ts'
import type { Aim, Suite, Trial } from '../suite.ts'

const messages = [
  { role: 'system', content: 'You answer in one sentence.' },
  { role: 'user', content: 'Why is the sky blue in the day and red in the evening?' },
]
const question = { model: 'bench', messages, temperature: 0.7, max_tokens: 200 }
const WHOLE = JSON.stringify(question)
const streamed = { ...question, stream: true, stream_options: { include_usage: true } }
const STREAMED = JSON.stringify(streamed)
const SLOW = JSON.stringify({ ...streamed, model: 'bench-slow' })

const BARE: Aim = { cpuRatioMax: 2.5 }
const PORTKEY: Aim = { cpuRatioMax: 1 / 3 }

/** The chat of one kind through each gateway, from 64 connections. */
const loadSuite = (
  { name, work, body, addressBlock }: { name: string; work: string; body: string; addressBlock: number },
  check: (server: string, answer: string) => void,
): Suite => ({
  name,
  work,
  async prepare(lab) {
    const { ours, bare, portkey } = await startChatServers(lab)
    const servers = [ours, bare, portkey]
    return {
      load: {
        method: 'POST',
        path: '/v1/chat/completions',
        headers: async (of) => servers.find((server) => server.name === of.name)?.headers() ?? {},
        body,
        addressBlock,
        connections: 64,
      },
      ours,
      peers: [
        { ...bare, aim: BARE },
        { ...portkey, aim: PORTKEY },
      ],
      check: async (server, answer) => check(server, await answer.text()),
    }
  },
})

/** What a gateway adds to a chat that is answered whole. */
export const ai = loadSuite(
  {
    name: 'ai',
    work: 'POST of a chat that a provider answers at once with 600 bytes of JSON',
    body: WHOLE,
    addressBlock: 70,
  },
  (server, answer) => {
    const { choices } = JSON.parse(answer) as { choices: unknown[] }
    strictEqual(choices.length, 1, server)
  },
)

/** What it adds to one that comes in chunks. */
export const aiStream = loadSuite(
  { name: 'ai-stream', work: 'the same as a stream of 20 chunks, 5 ms apart', body: STREAMED, addressBlock: 74 },
  (server, answer) => {
    strictEqual(answer.match(/^data: \{/gm)?.length, 21, server)
    strictEqual(answer.endsWith('data: [DONE]\n\n'), true, server)
  },
)

interface Asked {
  server: ChatServer
  agent: Agent
  headers: Record<string, string>
  body: string
}

/** Sends a chat. Throws unless it is answered 200. */
async function send({ server: { name, origin, path }, agent, headers, body }: Asked): Promise<{
  sent: ClientRequest
  answer: IncomingMessage
}> {
  const byte = () => Math.floor(Math.random() * 256)
  const from = { 'x-forwarded-for': `10.${200 + (byte() % 50)}.${byte()}.${byte()}` }
  const sent = request(origin + path, { method: 'POST', agent, headers: { ...headers, ...from } }).end(body)
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  if (answer.statusCode !== 200) throw new Error(`${name} answered ${answer.statusCode}: ${await text(answer)}`)
  return { sent, answer }
}

/** One chat at a time, by turns through a gateway and straight at the provider; what counts is the difference of the medians. */
const delayTrial = (server: ChatServer, direct: ChatServer): Trial => ({
  name: server.name,
  pid: server.pid,
  async measure(seconds) {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    moveTo('load', [process.pid])
    try {
      const askedOf = async (to: ChatServer) => ({ server: to, agent, headers: await to.headers(), body: WHOLE })
      const [order, askedDirectly] = [await askedOf(server), await askedOf(direct)]
      const took: number[] = []
      const tookDirectly: number[] = []
      const time = async (of: Asked, times: number[]) => {
        const sentAt = performance.now()
        const { answer } = await send(of)
        await text(answer)
        times.push(performance.now() - sentAt)
      }
      const startedAt = performance.now()
      while (performance.now() - startedAt < seconds * 1_000) {
        await time(order, took)
        await time(askedDirectly, tookDirectly)
      }
      const elapsed = (performance.now() - startedAt) / 1_000
      const through = percentiles(took)
      const added = (through.p50Ms - percentiles(tookDirectly).p50Ms) * 1_000
      return { perSecond: took.length / elapsed, seconds: elapsed, ...through, facts: { 'added p50 µs': added } }
    } finally {
      agent.destroy()
      moveTo('any', [process.pid])
    }
  },
})

/** How much later an answer comes because of a gateway. */
export const aiDelay: Suite = {
  name: 'ai-delay',
  work: 'the chat of `ai`, one at a time; beside each one, the same asked of the provider directly',
  async prepare(lab) {
    const { ours, bare, portkey, direct } = await startChatServers(lab)
    return {
      ours: delayTrial(ours, direct),
      peers: [bare, portkey].map((server) => ({ ...delayTrial(server, direct), aim: {} })),
    }
  },
}

/** How much later an answer comes because of a budget: the time until what the call may cost is held, durably. */
export const aiBudgetDelay: Suite = {
  name: 'ai-budget-delay',
  work: 'the same, by an organization that has a budget and by one that has none',
  async prepare(lab) {
    const { ours, budgeted, direct } = await startChatServers(lab)
    return { ours: delayTrial(budgeted, direct), peers: [{ ...delayTrial(ours, direct), aim: {} }] }
  },
}

const STREAMS = 1_000
const CHUNKS = 20
const CHUNK_MS = 250
const MEMORY_EVERY_MS = 250

/** Opens streams over the time that one takes to come back to its first chunk, and reads all of them to the end. */
function openStreamsTrial(server: ChatServer, hasProcess = true): Trial {
  const { name, pid } = server
  const memory = () => (hasProcess ? (memoryOfServer(pid, true) ?? 0) : 0)
  let idleMb: number | undefined
  return {
    name,
    pid: hasProcess ? pid : undefined,
    async measure() {
      idleMb ??= memory()
      let highestMb = 0
      const watch = setInterval(() => (highestMb = Math.max(highestMb, memory())), MEMORY_EVERY_MS)
      const agent = new Agent({ keepAlive: false })
      moveTo('load', [process.pid])
      try {
        const order = { server, agent, headers: await server.headers(), body: SLOW }
        const late: number[] = []
        let [open, openMost] = [0, 0]
        const read = async () => {
          const { answer } = await send(order)
          openMost = Math.max(openMost, ++open)
          let told = 0
          for await (const chunk of answer.setEncoding('utf8') as AsyncIterable<string>) {
            const now = performance.timeOrigin + performance.now()
            for (const [, sentAt] of chunk.matchAll(/@([\d.]+)@/g)) {
              told++
              late.push(now - Number(sentAt))
            }
          }
          open--
          if (told !== CHUNKS) throw new Error(`${name} passed ${told} of ${CHUNKS} chunks on`)
        }
        const startedAt = performance.now()
        const streams: Promise<void>[] = []
        for (let n = 0; n < STREAMS; n++) {
          streams.push(read())
          // All of them are open well before the first is over.
          if (n % 25 === 24) await sleep((CHUNK_MS * CHUNKS * 25) / STREAMS / 2)
        }
        await Promise.all(streams)
        const seconds = (performance.now() - startedAt) / 1_000
        const facts = {
          'open at once': openMost,
          'idle MB': idleMb,
          'highest MB': highestMb,
          'above idle MB': highestMb - idleMb,
        }
        return { perSecond: STREAMS / seconds, seconds, ...percentiles(late), facts: hasProcess ? facts : {} }
      } finally {
        clearInterval(watch)
        agent.destroy()
        moveTo('any', [process.pid])
      }
    },
  }
}

/** What 1,000 answers that come slowly take, and how late their chunks are. */
export const aiOpenStreams: Suite = {
  name: 'ai-open-streams',
  isLarge: true,
  work: `${STREAMS} streams at once, ${CHUNKS} chunks ${CHUNK_MS} ms apart in each; times are of one chunk`,
  async prepare(lab) {
    const { ours, bare, portkey, direct } = await startChatServers(lab)
    return {
      ours: openStreamsTrial(ours),
      peers: [
        { ...openStreamsTrial(bare), aim: {} },
        { ...openStreamsTrial(portkey), aim: {} },
        { ...openStreamsTrial(direct, false), aim: {} },
      ],
    }
  },
}
