import { deepStrictEqual } from 'node:assert/strict'
import type { Suite } from '../suite.ts'

/**
 * What a second process costs: both have the same database and Redis, so their requests should cost what one process's do. What
 * they cost more is the most that scaling by processes loses; part of it is that they take turns on one core here.
 */
export const twoProcesses: Suite = {
  name: 'two-processes',
  work: 'GET /organizations/{id} with a user token, 64 connections to each of two processes on one core, and to one alone',
  async prepare(lab) {
    const platform = await lab.platform()
    const organization = await platform.call<{ id: string }>('POST', '/organizations', { name: 'Two' })
    const ours = { origin: platform.apiOrigin, pid: platform.apiPid }
    return {
      load: {
        method: 'GET',
        path: `/organizations/${organization.id}`,
        headers: async () => ({ authorization: `Bearer ${await platform.userToken()}` }),
        addressBlock: 24,
        connections: 64,
      },
      ours: { name: 'two', ...ours, also: await platform.startAnotherApi() },
      peers: [{ name: 'one', ...ours, aim: { cpuRatioMax: 1.3 } }],
      async check(_, answer) {
        deepStrictEqual(await answer.json(), organization)
      },
    }
  },
}
