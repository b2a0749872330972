import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Lab } from './lab.ts'

/** Where control groups of version 1 share out CPU time. */
const root = '/sys/fs/cgroup/cpu'
/** Short against the time that an answer takes under load. */
const PERIOD_US = 10_000

/** Limits what a process, and what it starts meanwhile, takes of a core. */
export interface CpuLimit {
  apply(): Promise<void>
  lift(): Promise<void>
}

/** share: of a core. Throws unless control groups of version 1 can be written. */
export async function makeCpuLimit(lab: Lab, pid: number, share: number): Promise<CpuLimit> {
  const folder = join(root, `bench-${pid}`)
  const members = join(folder, 'cgroup.procs')
  await mkdir(folder, { recursive: true })
  async function lift(): Promise<void> {
    for (const member of (await readFile(members, 'utf8')).split('\n').filter(Boolean))
      await writeFile(join(root, 'cgroup.procs'), member)
  }
  lab.onClose(async () => {
    await lift()
    await rmdir(folder)
  })
  await writeFile(join(folder, 'cpu.cfs_period_us'), String(PERIOD_US))
  await writeFile(join(folder, 'cpu.cfs_quota_us'), String(PERIOD_US * share))
  return { apply: () => writeFile(members, String(pid)), lift }
}
