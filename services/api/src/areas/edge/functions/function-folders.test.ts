import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { logOf, newDeployment, untilEnded } from '../../../../test/deployments.ts'
import { buildOutput, handler } from '../../../../test/functions.ts'
import { newOwner } from '../../../../test/scenario.ts'
import type { Blobs } from '../../storage/objects/blobs.ts'
import { openFunctionFolders } from './function-folders.ts'
import { functionIdOf } from '../../deploy/deployments/asset-id.ts'

/** Too long to be stored in the database. */
const DATA = randomBytes(400_000).toString('hex')

let platform: TestPlatform
let folder: string
let functionId: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ff-'))
  platform = await startPlatform({ hasWorker: true, env: { DEFAULT_PLAN: 'pro' } })
  const archive = buildOutput({ index: { code: handler(`res.end('ok')`), files: { 'data.txt': DATA } } })
  const owner = await newOwner(platform)
  const { id } = await newDeployment(platform, owner, { archive })
  const { status } = await untilEnded(platform, id)
  if (status !== 'ACTIVE') throw new Error(await logOf(platform, id))
  functionId = functionIdOf(id, 'index')
})
afterAll(async () => {
  await platform.close()
  await rm(folder, { recursive: true })
})

const dataOf = (path: string) => readFile(join(path, 'data.txt'), 'utf8')

test('files that are being fetched are not tidied up', async () => {
  const begun = Promise.withResolvers<void>()
  const mayRead = Promise.withResolvers<void>()
  const { db, blobs } = platform.api
  const slow: Blobs = {
    ...blobs,
    async *read(...args) {
      begun.resolve()
      await mayRead.promise
      yield* blobs.read(...args)
    },
  }
  const folders = openFunctionFolders({ db, blobs: slow, folder: join(folder, 'slow'), bytesMax: 0 })
  const preparing = folders.prepare(functionId)
  await begun.promise
  await folders.evict(() => false)
  mayRead.resolve()
  expect(await dataOf(await preparing)).toBe(DATA)
})

test('files that are wanted while they are removed are fetched again', async () => {
  const { db, blobs } = platform.api
  const folders = openFunctionFolders({ db, blobs, folder: join(folder, 'small'), bytesMax: 0 })
  await folders.prepare(functionId)
  for (let n = 0; n < 5; n++) {
    const evicting = folders.evict(() => false)
    const path = await folders.prepare(functionId)
    await evicting
    expect(await dataOf(path)).toBe(DATA)
  }
})

test('files of Functions in use stay, and all others go while they are too many', async () => {
  const { db, blobs } = platform.api
  const folders = openFunctionFolders({ db, blobs, folder: join(folder, 'few'), bytesMax: 0 })
  const path = await folders.prepare(functionId)
  await folders.evict((id) => id === functionId)
  expect(await dataOf(path)).toBe(DATA)
  await folders.evict(() => false)
  await expect(dataOf(path)).rejects.toThrow(/ENOENT/)
})
