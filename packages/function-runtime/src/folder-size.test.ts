import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { removeFolder } from '@platform/sandbox/remove-folder'
import { isLarger } from './folder-size.ts'

const limit = { bytes: 1_000, entries: 5_000 }

test('a folder is measured by bytes and by entries', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'size-'))
  expect(await isLarger([folder, join(folder, 'absent')], limit)).toBe(false)
  await mkdir(join(folder, 'a/b'), { recursive: true })
  await writeFile(join(folder, 'a/b/file'), Buffer.alloc(1_000))
  expect(await isLarger([folder], limit)).toBe(false)
  expect(await isLarger([folder], { ...limit, entries: 2 })).toBe(true)
  await writeFile(join(folder, 'a/more'), 'x')
  expect(await isLarger([folder], limit)).toBe(true)
  await removeFolder(folder)
  expect(existsSync(folder)).toBe(false)
})

test('files deeper than a path can name are neither hidden nor left', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'size-'))
  const nest = `const fs = require('node:fs')
    for (let n = 0; n < 2_200; n++) { fs.mkdirSync('a'); process.chdir('a') }
    fs.writeFileSync('large', Buffer.alloc(2_000))`
  execFileSync(process.execPath, ['-e', nest], { cwd: folder })
  expect(await isLarger([folder], limit)).toBe(true)
  await removeFolder(folder)
  expect(existsSync(folder)).toBe(false)
})
