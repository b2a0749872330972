import { chmod, chown, mkdir, mkdtemp, rm, stat, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { unless } from '@platform/test-runner/task-meta'
import { startPlatform } from '@platform/testing/platform'
import { afterEach, beforeEach, expect, test } from 'vitest'

let above: string
let folder: string
beforeEach(async () => {
  above = await mkdtemp(join(tmpdir(), 'own-'))
  folder = join(above, 'f')
})
afterEach(() => rm(above, { recursive: true }))

/** Why Functions cannot run with this folder. */
async function obstacle(): Promise<string | undefined> {
  const platform = await startPlatform({ env: { FUNCTIONS_FOLDER: folder } })
  try {
    return (await platform.api.functions.probe()).obstacle
  } finally {
    await platform.close()
  }
}

test('a folder that is not there is made, for the platform alone to change', async () => {
  expect((await obstacle()) ?? '').not.toContain(folder)
  expect((await stat(folder)).mode & 0o777).toBe(0o711)
})

test('a folder that others may write to is refused', async () => {
  await mkdir(folder)
  await chmod(folder, 0o777)
  expect(await obstacle()).toMatch(/can be written to by other users: remove it/)
})

test('a link is refused, wherever it leads', async () => {
  await mkdir(join(above, 'theirs'))
  await symlink('theirs', folder)
  expect(await obstacle()).toMatch(/is a link/)
})

test(
  'a folder of another user is refused',
  unless(process.getuid?.() === 0 ? undefined : 'it needs root'),
  async () => {
    await mkdir(folder, { mode: 0o755 })
    await chown(folder, 12_345, 12_345)
    expect(await obstacle()).toMatch(/belongs to another user/)
  },
)
