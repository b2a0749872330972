import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { moveTo } from '../cores.ts'
import { activateFunctions } from '../function-site.ts'
import { processTree } from '../process-costs.ts'
import type { Suite } from '../suite.ts'

/** Of the plan pro. */
const SLOTS = 10
/** A slot with so many requests under way gets another one beside it. */
const FULL = 50
/** More than fill three slots, and fewer than one refuses. */
const CLIENTS = 180
const ANSWER_MS = 250
const SLOTS_AWAITED = 4
const SLOTS_MS_MAX = 30_000
/** Each is measured once, since its slots stay. */
const FUNCTIONS = 24

const slow = `const who = crypto.randomUUID()
export default (req, res) => {
  res.writeHead(200, { who }).flushHeaders()
  setTimeout(() => res.end(), ${ANSWER_MS})
}`

/** From the request that finds a Function's only slot full until further slots answer. */
export const functionScaling: Suite = {
  name: 'function-scaling',
  work: `${CLIENTS} clients of a Function with one warm slot, whose answers take ${ANSWER_MS} ms: from the request that finds it full until its second to fourth slot answer first; nothing is pinned`,
  async prepare(lab) {
    const platform = await lab.platform()
    moveTo('any', processTree(platform.apiPid))
    const names = Array.from({ length: FUNCTIONS }, (_, n) => `slow-${n}`)
    const functions = Object.fromEntries(names.map((name) => [name, slow]))
    const { host, ask } = await activateFunctions(lab, functions, { function_slots: SLOTS })
    const { port } = new URL(platform.edgeOrigin)
    return {
      ours: {
        name: 'ours',
        pid: platform.apiPid,
        isAlone: true,
        async measure(seconds) {
          const name = names.shift()
          if (name === undefined) throw new Error(`There are ${FUNCTIONS} Functions to measure: take fewer rounds`)
          await ask(`/${name}`)
          const agent = new Agent({ keepAlive: true })
          const firstAfterMs = new Map<string, number>()
          let count = 0
          const startedAt = performance.now()
          const took = () => performance.now() - startedAt
          let fullAfterMs = 0
          /** Their requests come evenly, or a further slot would be asked only when all answers of the first are due. */
          async function askAgainAndAgain(client: number): Promise<void> {
            await sleep((client * ANSWER_MS) / CLIENTS)
            if (client === FULL) fullAfterMs = took()
            while (took() < seconds * 1_000 || (firstAfterMs.size < SLOTS_AWAITED && took() < SLOTS_MS_MAX)) {
              const sent = request({ host: '127.0.0.1', port, path: `/${name}`, headers: { host }, agent }).end()
              const [answer] = (await once(sent, 'response')) as [IncomingMessage]
              if (answer.statusCode !== 200) throw new Error(`The Function answered ${answer.statusCode}`)
              const who = String(answer.headers['who'])
              if (!firstAfterMs.has(who)) firstAfterMs.set(who, took())
              answer.resume()
              await once(answer, 'end')
              count += 1
            }
          }
          try {
            await Promise.all(Array.from({ length: CLIENTS }, (_, n) => askAgainAndAgain(n)))
          } finally {
            agent.destroy()
          }
          const elapsed = took() / 1_000
          const [, second, third, fourth] = [...firstAfterMs.values()].map((ms) => ms - fullAfterMs)
          if (second === undefined || third === undefined || fourth === undefined)
            throw new Error(`Only ${firstAfterMs.size} slots answered`)
          return {
            perSecond: count / elapsed,
            seconds: elapsed,
            facts: {
              'ms until the second slot': second,
              'ms until the third': third,
              'ms until the fourth': fourth,
              slots: firstAfterMs.size,
            },
          }
        },
      },
      peers: [],
    }
  },
}
