import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openOwnMemory } from './own-memory.ts'

const V1 = 'memory.limit_in_bytes'
const V2 = 'memory.max'

/** Hierarchies as the kernel lays them out, by the file system that they are mounted as, each with the files of one group. */
function layOut(hierarchies: Record<string, Record<string, string> | undefined>): Parameters<typeof openOwnMemory>[0] {
  const folder = mkdtempSync(join(tmpdir(), 'own-memory-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const mounts = Object.entries(hierarchies).map(([type, files]) => {
    const mount = join(folder, type)
    mkdirSync(join(mount, 'own'), { recursive: true })
    for (const [name, text] of Object.entries(files ?? {})) writeFileSync(join(mount, 'own', name), text)
    return `${type} ${mount} ${type} rw,relatime${type === 'cgroup' ? ',memory' : ''} 0 0`
  })
  return { membership: '0::/own\n4:memory:/own\n', mounts: mounts.join('\n') }
}

const unified = (limit: string): Record<string, string> => ({
  [V2]: `${limit}\n`,
  'memory.current': '1000\n',
  'memory.stat': 'anon 300\nfile 600\ninactive_file 250\nactive_file 150\nslab_reclaimable 50\nslab 80\n',
})
const legacy = (limit: string): Record<string, string> => ({
  [V1]: `${limit}\n`,
  'memory.usage_in_bytes': '1000\n',
  'memory.kmem.usage_in_bytes': '70\n',
  'memory.stat': 'inactive_file 1\nactive_file 1\ntotal_inactive_file 250\ntotal_active_file 150\n',
})

test.each([
  { what: 'a group of version 2', hierarchies: { cgroup2: unified('2000') }, limit: 2000, held: 550 },
  {
    what: 'a group of version 2 without a limit',
    hierarchies: { cgroup2: unified('max') },
    limit: Infinity,
    held: 550,
  },
  { what: 'a group of version 1', hierarchies: { cgroup: legacy('2000') }, limit: 2000, held: 530 },
  {
    what: 'a group of version 1 without a limit',
    hierarchies: { cgroup: legacy('9223372036854771712') },
    limit: Infinity,
    held: 530,
  },
  {
    what: 'a group of version 1 beside one of version 2 that counts no memory',
    hierarchies: { cgroup2: {}, cgroup: legacy('2000') },
    limit: 2000,
    held: 530,
  },
])('$what tells its limit, and what it holds besides what the kernel can take back', ({ hierarchies, limit, held }) => {
  const memory = openOwnMemory(layOut(hierarchies))
  expect([memory?.limitBytes(), memory?.countedBytes(), memory?.heldBytes()]).toEqual([limit, 1000, held])
})

test('a process whose groups count no memory has none to guard', () => {
  expect(openOwnMemory(layOut({ cgroup2: {} }))).toBeUndefined()
  expect(openOwnMemory(layOut({}))).toBeUndefined()
})
