import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, open, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { listOrganizations, Platform, type StoredToken, userToken } from '../src/index.ts'
import { tokenFile } from '../src/node/index.ts'
import { startSignInProcess } from './sign-in-program.ts'

const token: StoredToken = {
  baseUrl: 'http://localhost:4000',
  issuer: 'http://localhost:4001',
  clientId: 'client',
  accessToken: 'access',
  refreshToken: 'refresh',
  expiresAt: 0,
}

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'token-'))
})
afterAll(() => rm(folder, { recursive: true }))

const modeOf = async (path: string) => ((await stat(path)).mode & 0o777).toString(8)

test('a token file is its owner’s alone, in a folder of theirs alone, and is gone after a sign-out', async () => {
  const path = join(folder, 'a', 'b', 'token.json')
  const file = tokenFile(path)
  expect(await file.read()).toBeUndefined()
  await file.lock(() => file.write(token))
  expect([await modeOf(path), await modeOf(join(path, '..')), await modeOf(join(path, '../..'))]).toEqual([
    '600',
    '700',
    '700',
  ])
  expect(await file.read()).toEqual(token)
  await file.write(undefined)
  await file.write(undefined)
  expect([await file.read(), await readdir(join(path, '..'))]).toEqual([undefined, []])
})

test('a token file replaces what was there: another mode, half a document, the draft of a process that was killed', async () => {
  const path = join(folder, 'replaced.json')
  await writeFile(path, '{"accessToken":', { mode: 0o644 })
  await writeFile(`${path}.new`, 'draft', { mode: 0o644 })
  const file = tokenFile(path)
  expect(await file.read()).toBeUndefined()
  await file.write(token)
  expect([await file.read(), await modeOf(path)]).toEqual([token, '600'])
})

test('whoever reads a token file while it is written finds a whole sign-in', async () => {
  const file = tokenFile(join(folder, 'written.json'))
  await file.write(token)
  const write = { isOver: false }
  const writing = (async () => {
    for (let n = 1; n <= 20; n++) await file.write({ ...token, accessToken: 'a'.repeat(n * 10_000), expiresAt: n })
    write.isOver = true
  })()
  while (!write.isOver) expect(await file.read()).toMatchObject({ refreshToken: 'refresh' })
  await writing
  expect(await file.read()).toMatchObject({ expiresAt: 20 })
})

test('a token file that cannot be read is an error of its own, not an answer that was lost', async () => {
  const path = join(folder, 'folder.json')
  await mkdir(path)
  const platform = new Platform({ baseUrl: token.baseUrl, credential: userToken({ store: tokenFile(path) }) })
  await expect(listOrganizations(platform)).rejects.toMatchObject({
    message: expect.stringMatching(/^The token store failed: EISDIR/) as string,
    operation: 'POST /oauth2/token',
    attempts: 0,
    retryable: false,
  })
})

/** Twelve times the lock, at once. Fails if two had it at the same time. */
async function takeTwelveTimes(path: string): Promise<void> {
  let holders = 0
  const turns = Array.from({ length: 12 }, () =>
    tokenFile(path).lock(async () => {
      expect(++holders).toBe(1)
      // Long enough for the others to be at the lock.
      for (let n = 0; n < 20; n++) await tokenFile(path).read()
      holders--
    }),
  )
  await Promise.all(turns)
}

test('one at a time holds the lock, whoever failed in it before, and it leaves nothing behind', async () => {
  const path = join(folder, 'locked', 'token.json')
  await expect(tokenFile(path).lock(() => Promise.reject(new Error('failed')))).rejects.toThrow('failed')
  await takeTwelveTimes(path)
  expect(await readdir(join(path, '..'))).toEqual([])
})

test('of twelve that find the lock of a killed process, and of another that was killed as its successor, one at a time has it', async () => {
  const path = join(folder, 'killed', 'token.json')
  for (let n = 0; n < 2; n++) {
    const holder = startSignInProcess({ path })
    expect(await holder.next()).toBe('holds')
    await holder.kill()
  }
  expect(
    (await readdir(join(path, '..'))).filter((name) => name.includes('.lock') && !name.endsWith('.socket')),
  ).toHaveLength(2)
  await takeTwelveTimes(path)
  expect(await readdir(join(path, '..'))).toEqual([])
})

test('the lock of a process that lives is waited for, however old its file is', async () => {
  const path = join(folder, 'aged', 'token.json')
  const holder = startSignInProcess({ path })
  expect(await holder.next()).toBe('holds')
  await utimes(`${path}.lock`, 0, 0)
  const lock = await readFile(`${path}.lock`)
  const connections = () => process.getActiveResourcesInfo().filter((name) => name === 'PipeWrap').length
  const others = connections()
  let hasTaken = false
  const taking = tokenFile(path).lock(() => Promise.resolve((hasTaken = true)))
  // It waits for the end of its connection to the holder.
  await vi.waitFor(() => expect(connections()).toBe(others + 1), 60_000)
  expect([hasTaken, await readFile(`${path}.lock`)]).toEqual([false, lock])
  await holder.kill()
  await taking
  expect(await readdir(join(path, '..'))).toEqual([])
})

test('the lock that is released while another process follows its dead holders is not taken at their end', async () => {
  const path = join(folder, 'walked', 'token.json')
  await mkdir(join(path, '..'))
  const lock = `${path}.lock`
  const dead = (id: string) => JSON.stringify({ id, address: join(folder, 'nobody') })
  await writeFile(lock, dead('first'))
  const second = `${lock}.first`
  execFileSync('mkfifo', [second])
  const taken = tokenFile(path).lock(() => readdir(join(path, '..')))
  // It opens as soon as the other end is read.
  const pipe = await open(second, 'w')
  await Promise.all([rm(lock), rm(second)])
  await pipe.writeFile(dead('second'))
  await pipe.close()
  expect(await taken).toContain('token.json.lock')
})

test('a lock is taken over in a folder whose name is too long for a socket', async () => {
  const path = join(folder, 'l'.repeat(120), 'token.json')
  const holder = startSignInProcess({ path })
  expect(await holder.next()).toBe('holds')
  const waiting = takeTwelveTimes(path)
  await holder.kill()
  await waiting
  expect(await readdir(join(path, '..'))).toEqual([])
})
