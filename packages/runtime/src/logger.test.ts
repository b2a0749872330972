import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { open } from 'node:fs/promises'
import { type Readable, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { DrizzleQueryError } from 'drizzle-orm'
import { expect, onTestFinished, test } from 'vitest'
import { createLogger } from './logger.ts'

function capture() {
  const lines: string[] = []
  const destination = new Writable({ write: (chunk: Buffer, _, done) => (lines.push(chunk.toString()), done()) })
  return { logger: createLogger('test', 'info', destination), lines }
}

test('a failed query is logged by its cause: neither parameters nor what the driver hangs on its errors', () => {
  const { logger, lines } = capture()
  const driver = Object.assign(new Error('duplicate key value violates unique constraint "users_email"'), {
    code: '23505',
    detail: 'Key (email)=(ana@example.com) already exists.',
  })
  const wrapped = new DrizzleQueryError('insert into users …', ['ana@example.com', 'hash'], driver)
  logger.error({ err: wrapped }, 'request failed')
  logger.error({ err: new Error('Unavailable', { cause: wrapped }) }, 'request failed')
  expect(lines.join('')).not.toMatch(/ana@example\.com|hash/)
  expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
    { err: { code: '23505', message: expect.stringContaining('users_email') as string } },
    { err: { message: 'Unavailable', cause: { code: '23505' } } },
  ])
})

test('members that hold secrets are redacted', () => {
  const { logger, lines } = capture()
  logger.info(
    { password: 'p1', headers: { authorization: 'Bearer t1', cookie: 'c1' }, body: { client_secret: 's1' } },
    'x',
  )
  expect(lines.join('')).not.toMatch(/p1|t1|c1|s1/)
})

test.each([
  ['goes on without another line', 'setInterval(() => {}, 1_000)'],
  ['runs out of work', ''],
  ['exits', 'process.exit(0)'],
  ['fails', "throw new Error('nobody catches it')"],
])('the last line of a process that %s comes out', async (_, then) => {
  const script = `import { createLogger } from ${JSON.stringify(import.meta.resolve('./logger.ts'))}
    createLogger('test', 'info').info('the last line')
    ${then}`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let written = ''
  for await (const chunk of child.stdout.setEncoding('utf8')) {
    written += chunk as string
    if (written.includes('\n')) break
  }
  expect(JSON.parse(written)).toMatchObject({ service: 'test', msg: 'the last line' })
})

test.each(['process.exit(0)', "throw new Error('nobody catches it')"])(
  'every line of a busy process comes out once and in order, before it ends by %s',
  async (end) => {
    const script = `import { createLogger } from ${JSON.stringify(import.meta.resolve('./logger.ts'))}
      const logger = createLogger('test', 'info')
      let n = 0
      const turn = () => {
        for (const until = n + 500; n < until; n++) logger.info({ n }, 'é')
        if (n === 5_000) ${end}
        setImmediate(turn)
      }
      turn()`
    const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    const lines = Buffer.concat(await child.stdout.toArray()).toString()
    const written = lines
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { n: number; msg: string })
    expect(written.map(({ n }) => n)).toEqual(Array.from({ length: 5_000 }, (_, n) => n))
    expect(written.at(-1)?.msg).toBe('é')
  },
)

test('lines of all loggers of a process come out in their order, and one writer serves them', async () => {
  const script = `import { createLogger } from ${JSON.stringify(import.meta.resolve('./logger.ts'))}
    const loggers = Array.from({ length: 20 }, () => createLogger('test', 'info'))
    for (let n = 0; n < 2_000; n++) loggers[n % 20].info({ n }, 'é')`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script])
  onTestFinished(() => void child.kill('SIGKILL'))
  const [lines, warnings] = await Promise.all([text(child.stdout), text(child.stderr)])
  const written = lines.trimEnd().split('\n')
  expect(written.map((line) => (JSON.parse(line) as { n: number }).n)).toEqual(
    Array.from({ length: 2_000 }, (_, n) => n),
  )
  expect(warnings).toBe('') // Node warns of many listeners for the end of a process
})

test('nobody waits for a reader who is behind, and nothing is lost for him', async () => {
  const script = `import { createLogger } from ${JSON.stringify(import.meta.resolve('./logger.ts'))}
    const logger = createLogger('test', 'info')
    for (let n = 0; n < 5_000; n++) logger.info({ n }, 'é')
    process.stderr.write('all are logged')`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const [said] = (await once(child.stderr, 'data')) as [Buffer]
  expect(said.toString()).toBe('all are logged')
  const lines = Buffer.concat(await child.stdout.toArray())
    .toString()
    .trimEnd()
    .split('\n')
  expect(lines.map((line) => (JSON.parse(line) as { n: number }).n)).toEqual(Array.from({ length: 5_000 }, (_, n) => n))
})

test('a log that nobody can take ends no process: a full disk, a reader who has left', async () => {
  const script = `import { createLogger } from ${JSON.stringify(import.meta.resolve('./logger.ts'))}
    const logger = createLogger('test', 'info')
    let n = 0
    const log = () => {
      for (let i = 0; i < 100; i++) logger.info({ n }, 'é')
      if (++n < 20) setTimeout(log, 20)
      else process.stderr.write('still there', () => process.exit(7))
    }
    log()`
  const full = await open('/dev/full', 'w')
  onTestFinished(() => full.close())
  for (const stdout of [full.fd, 'pipe'] as const) {
    const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
      stdio: ['ignore', stdout, 'pipe'],
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    child.stdout?.destroy()
    const [said, [code]] = await Promise.all([text(child.stderr as Readable), once(child, 'exit')])
    expect([said, code]).toEqual(['still there', 7])
  }
})

test('the last lines come out in order while all threads are busy', async () => {
  const script = `import { pbkdf2 } from 'node:crypto'
    import { createLogger } from ${JSON.stringify(import.meta.resolve('./logger.ts'))}
    const logger = createLogger('test', 'info')
    for (let job = 0; job < 8; job++) pbkdf2('a', 'b', 200_000, 64, 'sha512', () => {})
    for (let n = 0; n < 400; n++) logger.info({ n }, 'é'.repeat(100))
    setImmediate(() => process.exit(0))`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const lines = (await text(child.stdout)).trimEnd().split('\n')
  expect(lines.map((line) => (JSON.parse(line) as { n: number }).n)).toEqual(Array.from({ length: 400 }, (_, n) => n))
})

test('a reader that has stopped does not keep the process from its end', async () => {
  const script = `import { createLogger } from ${JSON.stringify(import.meta.resolve('./logger.ts'))}
    const logger = createLogger('test', 'info')
    for (let n = 0; n < 5_000; n++) logger.info({ n }, 'é')
    process.exit(7)`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  // Nobody reads child.stdout.
  expect(await once(child, 'exit')).toEqual([7, null])
})
