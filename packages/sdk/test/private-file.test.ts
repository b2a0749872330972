import { execFileSync } from 'node:child_process'
import { chmod, chown, mkdtemp, readdir, readFile, readlink, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { privateFile } from '../src/node/index.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'private-'))
})
afterAll(() => rm(folder, { recursive: true }))

const modeOf = async (path: string) => ((await stat(path)).mode & 0o777).toString(8)

test('a private file and the folder that is made for it are its owner’s alone, whatever the umask and the mode of before', async () => {
  const before = process.umask(0)
  try {
    const path = join(folder, 'new', 'secrets')
    const file = privateFile(path)
    expect(await file.read()).toBeUndefined()
    await file.lock(() => file.write('one'))
    expect([await file.read(), await modeOf(path), await modeOf(join(folder, 'new'))]).toEqual(['one', '600', '700'])
    await chmod(path, 0o644)
    await file.write('two')
    expect([await file.read(), await modeOf(path)]).toEqual(['two', '600'])
    await file.write(undefined)
    expect([await file.read(), await readdir(join(folder, 'new'))]).toEqual([undefined, []])
  } finally {
    process.umask(before)
  }
})

test('a link in the place of a private file is not read, and is replaced without what it leads to', async () => {
  const target = join(folder, 'target')
  await writeFile(target, 'target')
  for (const [name, leadsTo] of [
    ['link', target],
    ['dangling', join(folder, 'nowhere')],
  ] as const) {
    const path = join(folder, name)
    await symlink(leadsTo, path)
    await expect(privateFile(path).read()).rejects.toThrow(`${path} is a link, which is not followed`)
    expect(await readlink(path)).toBe(leadsTo)
    // The draft as well: what lies there is nobody's to follow.
    await symlink(leadsTo, `${path}.new`)
    await privateFile(path).write('secret')
    expect([await privateFile(path).read(), await modeOf(path)]).toEqual(['secret', '600'])
  }
  expect([await readFile(target, 'utf8'), (await readdir(folder)).includes('nowhere')]).toEqual(['target', false])
})

test.skipIf(process.geteuid?.() !== 0)('a private file of somebody else is not read', async () => {
  const path = join(folder, 'foreign')
  await writeFile(path, 'theirs', { mode: 0o600 })
  await chown(path, 65_534, 65_534)
  await expect(privateFile(path).read()).rejects.toThrow(`${path} belongs to somebody else (user 65534)`)
})

test('a named pipe in the place of a private file keeps nobody waiting', async () => {
  const path = join(folder, 'pipe')
  execFileSync('mkfifo', [path])
  expect(await privateFile(path).read()).toBe('')
})
