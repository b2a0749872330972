import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { createLogger } from '@platform/runtime/logger'
import { startMailServer, textOf } from '@platform/testkit/mail-server'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createMailFolder } from './mail-folder.ts'
import { openMailSmtp } from './mail-smtp.ts'
import type { Mailer } from './mailer.ts'

const from = 'Accounts <no-reply@example.com>'
const link = `https://id.example.com/account/verify-email?token=${'t'.repeat(43)}`
const letter = { to: 'ana@example.com', subject: 'A subject', text: `Hello,\n\n${link}\n\nBye – now.\n` }

/** A driver, and the messages that arrived through it: envelope recipients and content. */
interface Post {
  mailer: Mailer
  arrived(): Promise<{ to: readonly string[]; message: string }[]>
  lines: string[]
}

async function openFolder(): Promise<Post & { folder: string }> {
  const parent = await mkdtemp(join(tmpdir(), 'platform-test-mail-'))
  onTestFinished(() => rm(parent, { recursive: true, force: true }))
  const folder = join(parent, 'not there yet')
  const lines: string[] = []
  const logger = createLogger('idp', 'info', { write: (line) => void lines.push(line) })
  return {
    folder,
    lines,
    mailer: createMailFolder({ folder, from, now: () => new Date(), logger }),
    async arrived() {
      const names = await readdir(folder)
      const messages = await Promise.all(names.toSorted().map((name) => readFile(join(folder, name), 'utf8')))
      return messages.map((message) => ({ to: [/^To: (.*)\r$/m.exec(message)?.[1] ?? ''], message }))
    },
  }
}

async function openServer(options?: Parameters<typeof startMailServer>[0]): Promise<Post & { url: string }> {
  const { url, messages, close } = await startMailServer(options)
  onTestFinished(close)
  return { url, lines: [], mailer: await openMailSmtp({ url, from }), arrived: async () => [...messages] }
}

describe.each<[string, () => Promise<Post>]>([
  ['a folder', openFolder],
  ['SMTP', openServer],
])('every driver: %s', (_, open) => {
  test('delivers the text as it is, links whole, to one person', async () => {
    const { mailer, arrived } = await open()
    await mailer.send(letter)
    const [{ to, message } = { to: [], message: '' }] = await arrived()
    expect(to).toEqual(['ana@example.com'])
    expect(message).toMatch(/^From: Accounts <no-reply@example\.com>\r$/m)
    expect(message).toMatch(/^Subject: A subject\r$/m)
    expect(message).toMatch(/^Date: \w{3}, \d{1,2} \w{3} \d{4} [\d:]{8} \+0000\r$/m)
    expect(textOf(message)).toContain(link)
    expect(textOf(message)).toContain('Bye – now.')
  })

  test('a comma in an address makes no second recipient', async () => {
    const { mailer, arrived } = await open()
    await mailer.send({ ...letter, to: 'ana,eve@example.com' })
    const sent = await arrived()
    expect(sent.flatMap(({ to }) => to)).toHaveLength(1)
  })

  test('two letters at the same instant are two', async () => {
    const { mailer, arrived } = await open()
    await Promise.all([mailer.send(letter), mailer.send(letter)])
    expect(await arrived()).toHaveLength(2)
  })
})

describe('a folder', () => {
  test('is for its owner alone, and the log names the file and nothing of what it holds (identity.md)', async () => {
    const { mailer, folder, lines } = await openFolder()
    await mailer.send(letter)
    const [name = ''] = await readdir(folder)
    expect(name).toMatch(/\.eml$/)
    expect((await stat(folder)).mode & 0o077).toBe(0)
    expect((await stat(join(folder, name))).mode & 0o077).toBe(0)
    const log = lines.join('')
    expect(log).toContain(name)
    for (const secret of [link, letter.to, letter.subject]) expect(log).not.toContain(secret)
  })
})

describe('SMTP', () => {
  test('a server that refuses the recipient is a failure, whose words do not repeat the address', async () => {
    const { mailer } = await openServer({
      onRcptTo: ({ address }, _session, done) => done(new Error(`No such user: ${address}`)),
    })
    const failure = (await mailer.send(letter).catch((error: unknown) => error)) as Error
    expect(failure.message).toBe('The mail server did not take a letter: EENVELOPE RCPT TO 550')
    expect(inspect(failure)).not.toContain(letter.to)
  })

  test('so is one that is not there', async () => {
    await expect((await openMailSmtp({ url: 'smtp://127.0.0.1:1', from })).send(letter)).rejects.toThrow(
      'The mail server did not take a letter: ESOCKET CONN',
    )
  })

  test('the credentials of the URL are used', async () => {
    const seen: unknown[] = []
    const { url } = await openServer({
      authOptional: false,
      allowInsecureAuth: true,
      onAuth({ username, password }, _session, done) {
        seen.push([username, password])
        done(null, { user: username })
      },
    })
    await (await openMailSmtp({ url: url.replace('//', '//robot:p%40ss@'), from })).send(letter)
    expect(seen).toEqual([['robot', 'p@ss']])
  })
})
