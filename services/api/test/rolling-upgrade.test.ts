import { fileURLToPath } from 'node:url'
import { unless } from '@platform/test-runner/task-meta'
import { isCi, isDrill, releasesFolder } from '@platform/testkit/test-environment'
import { type Release, releases } from '@platform/testing/earlier-schemas'
import { expect, onTestFinished, test } from 'vitest'
import { findClients, requireClientProgram } from './client-process.ts'
import { makeRelease, whyNotMade } from './old-release.ts'
import { newPerson, openLoad } from './upgrade-load.ts'
import { openUpgrade, type Programs, type Role, roles, type UpgradeProcess } from './upgrade-processes.ts'

/** Requests in each direction, spread over four replacements; more if those take longer. */
const REQUESTS = isDrill ? 3_000 : 300

const nginxFound = await findClients(['nginx'], ['-v'])
const newest = releases.at(-1) as Release
const today: Programs = { folder: fileURLToPath(new URL('../../../', import.meta.url)) }

const missing =
  releasesFolder === undefined && !isDrill
    ? 'TEST_RELEASES names no folder for the programs of earlier releases'
    : releases.map(whyNotMade).find((reason) => reason !== undefined)
if (isCi && missing !== undefined) throw new Error(`${missing}, and in CI it has to be there`)

const ways = releases.map((release) => ({
  release,
  ...release,
  way: release === newest ? 'forwards and back' : 'forwards',
}))

test.for(isDrill ? ways : ways.slice(-1))(
  'processes of release $version are replaced one by one, $way, under up to 30 requests a second, and no request fails',
  { timeout: 900_000, ...unless(missing) },
  async ({ release }, context) => {
    requireClientProgram(context, 'nginx', nginxFound)
    const made = await makeRelease(release)
    onTestFinished(made.remove)
    const old: Programs = { folder: made.folder, release }
    const upgrade = await openUpgrade()
    const { person, clientId, wanted } = newPerson()
    await upgrade.apply(old, wanted)
    const running = new Map<Role, UpgradeProcess>()
    for (const role of roles) running.set(role, await upgrade.start(role, 0, old))
    const load = await openLoad(upgrade, { person, clientId })

    /** Replaces a process by one of other programs on the other place, which goes on with all requests but the held one. */
    async function replace(role: Role, place: 0 | 1, programs: Programs): Promise<void> {
      const before = running.get(role)
      if (!before) throw new Error(`No ${role} runs`)
      const finish = await load.hold(role)
      const after = await upgrade.start(role, place, programs)
      running.set(role, after)
      await after.untilServing()
      await before.leaveOut()
      before.child.kill('SIGTERM')
      await before.untilClosed()
      // It has the held request, and waits for it.
      if (role !== 'worker') expect(before.isRunning(), before.name).toBe(true)
      await finish()
      expect(await before.ended, before.name).toMatchObject({ code: 0 })
    }

    async function replaceAll(order: readonly Role[], place: 0 | 1, programs: Programs): Promise<void> {
      const { failures, untilSent, stop } = load.start()
      try {
        for (const [n, role] of order.entries()) {
          await untilSent((REQUESTS / (order.length + 1)) * (n + 1))
          await replace(role, place, programs)
        }
        await untilSent(REQUESTS)
      } catch (error) {
        throw new Error([(error as Error).message, ...failures, await upgrade.readLogs()].join('\n'), { cause: error })
      }
      await stop()
      expect(failures, await upgrade.readLogs()).toEqual([])
      for (const { name, isRunning } of running.values()) expect(isRunning(), name).toBe(true)
      await load.checkStored()
    }

    await replaceAll(roles, 1, today)
    if (release === newest) await replaceAll(roles.toReversed(), 0, old)
  },
)
