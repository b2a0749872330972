import { fileURLToPath } from 'node:url'
import { setBudget } from '../ai-providers.ts'
import type { Suite } from '../suite.ts'

const ledger = fileURLToPath(import.meta.resolve('../peers/ai-ledger.ts'))
const plain = fileURLToPath(import.meta.resolve('../peers/ai-ledger-plain.ts'))

/** What a budget costs by itself: everything that is done for it around a call, and nothing of the call. */
export const aiHolds: Suite = {
  name: 'ai-holds',
  work: 'a hold of one budget and its settlement, both durable',
  async prepare(lab) {
    const platform = await lab.platform()
    const { databaseUrl } = lab
    const { id } = await platform.call<{ id: string }>('POST', '/organizations', { name: 'Holds' })
    await setBudget(databaseUrl, id)
    return {
      load: { method: 'POST', path: '/', headers: async () => ({}), addressBlock: 78, connections: 128 },
      ours: { name: 'ours', ...(await lab.startPeer('The ledger', ledger, { organizationId: id })) },
      peers: [
        {
          name: 'call by call',
          ...(await lab.startPeer('The plain ledger', plain, {})),
          aim: { throughputRatioMin: 1 },
        },
      ],
    }
  },
}
