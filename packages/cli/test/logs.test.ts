import { writeFile } from 'node:fs/promises'
import { newId } from '@platform/runtime/new-id'
import type { TestPlatform } from '@platform/testing/platform'
import { approveDevice } from '@platform/testkit/approve-device'
import { startCable } from '@platform/testkit/cable'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { newDeployment } from '../../../services/api/test/deployments.ts'
import { newOwner, type Owner, servedRequest } from '../../../services/api/test/scenario.ts'
import { openSchemas } from './schemas.ts'
import { startPlatformForSignIns } from './sign-ins.ts'
import { type Ended, newTerminal, signedInTerminal, type Terminal } from './terminal.ts'

let server: TestPlatform
let owner: Owner
let terminal: Terminal
beforeAll(async () => {
  server = await startPlatformForSignIns({ hasWorker: true })
  owner = await newOwner(server)
  terminal = await signedInTerminal(server, owner.person)
})
afterAll(() => server.close())

interface Site {
  applicationId: string
  deploymentId: string
}

async function newSite(): Promise<Site> {
  const { body } = await server.call(owner.token, 'POST /applications', {
    organizationId: owner.organizationId,
    name: `Logs ${newId()}`,
  })
  const { id } = await newDeployment(server, { ...owner, applicationId: body.id as string }, { status: 'ACTIVE' })
  return { applicationId: body.id as string, deploymentId: id }
}

/** Has a Function of the site print lines. */
async function print(
  site: Site,
  messages: readonly string[],
  more: { level?: 'INFO' | 'ERROR'; requestId?: string; at?: Date } = {},
): Promise<void> {
  for (const message of messages)
    server.api.runtimeLog.write({
      ...site,
      functionId: newId(),
      functionName: 'api/checkout',
      slot: 0,
      requestId: more.requestId,
      level: more.level ?? 'INFO',
      message,
      at: more.at ?? server.clock.now(),
    })
  await server.api.runtimeLog.flush()
}

const messagesOf = ({ events }: Ended): unknown[] => events.map((event: { message?: string }) => event.message)

/** Follows a log in a terminal that can be left. */
function follow(at: Terminal, line: string, env: Record<string, string> = {}) {
  const leaving = new AbortController()
  let printed = ''
  const waiting = new Set<() => void>()
  const ended = at.json(line, {
    env,
    signal: leaving.signal,
    onStdout(text) {
      printed += text
      for (const look of waiting) look()
    },
  })
  const leave = async () => {
    leaving.abort('SIGINT')
    return ended
  }
  onTestFinished(async () => void (await leave()))
  return {
    leave,
    /** Resolves once it has been printed. */
    has: (text: string) =>
      Promise.race([
        new Promise<void>((resolve) => {
          const look = () => void (printed.includes(text) && resolve())
          waiting.add(look)
          look()
        }),
        ended.then(({ stdout, stderr }) => {
          throw new Error(`It ended: ${stdout}${stderr}`)
        }),
      ]),
  }
}

describe('logs', () => {
  test('logs shows what Functions print, oldest first, by level, text, request, time and number', async () => {
    const site = await newSite()
    const now = server.clock.now().getTime()
    await print(site, ['an hour ago'], { at: new Date(now - 3_600_000) })
    await print(site, ['one', 'two'])
    await print(site, ['failed'], { level: 'ERROR', requestId: 'request-1' })
    const of = `--app ${site.applicationId}`
    const expected: [line: string, messages: string[]][] = [
      [`logs ${of}`, ['an hour ago', 'one', 'two', 'failed']],
      [`logs ${site.deploymentId}`, ['an hour ago', 'one', 'two', 'failed']],
      [`logs ${of} --limit 2`, ['two', 'failed']],
      [`logs ${of} --since 10m`, ['one', 'two', 'failed']],
      [`logs ${of} --since ${new Date(now - 7_200_000).toISOString()}`, ['an hour ago', 'one', 'two', 'failed']],
      [`logs ${of} --level ERROR`, ['failed']],
      [`logs ${of} --search TWO`, ['two']],
      [`logs ${of} --request request-1`, ['failed']],
      [`logs ${of} --env production`, ['an hour ago', 'one', 'two', 'failed']],
      [`logs ${of} --env preview`, []],
    ]
    for (const [line, messages] of expected) {
      const ended = await terminal.json(line)
      expect([line, ended.code, messagesOf(ended), ended.document.data]).toEqual([
        line,
        0,
        messages,
        { lines: messages.length, lost: 0 },
      ])
    }
    const shown = await terminal.run(`logs ${of} --limit 1`)
    expect(shown.stdout).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} api\/checkout ERROR failed\n$/)
  })

  test('logs shows requests, of one deployment and by id', async () => {
    const site = await newSite()
    const startedAt = server.clock.now()
    const ids = [newId(), newId()]
    for (const [index, id] of ids.entries())
      server.api.requestLog.write(
        servedRequest({
          id,
          applicationId: site.applicationId,
          path: `/${index}`,
          startedAt,
          completedAt: startedAt,
          ...(index === 0 && { deploymentId: site.deploymentId }),
        }),
      )
    await server.api.requestLog.flush()
    const all = await terminal.json(`logs --requests --app ${site.applicationId}`)
    expect(all.events.map(({ id }: { id: string }) => id).toSorted()).toEqual(ids.toSorted())
    const one = await terminal.json(`logs --requests --app ${site.applicationId} --request ${ids[1]}`)
    expect(one.events.map(({ id }: { id: string }) => id)).toEqual([ids[1]])
    const text = await terminal.run(`logs --requests ${site.deploymentId}`)
    expect(text.stdout).toMatch(/^\S+ \S+ 200 GET shop\.apps\.example\.com\/0 \d+ ms\n$/)
  })

  test('logs of someone else’s deployment, or of one that is not there, is 4', async () => {
    const stranger = await newOwner(server)
    const theirs = await newDeployment(server, stranger, { status: 'ACTIVE' })
    for (const id of [theirs.id, newId()])
      for (const flags of ['', ' --build', ' --requests', ' --follow', ' --build --follow'])
        expect([flags, (await terminal.json(`logs ${id}${flags}`)).code]).toEqual([flags, 4])
  })
})

describe('logs --follow', () => {
  test('logs --follow misses no line that is printed between the list and the stream', async () => {
    const site = await newSite()
    let isListed = false
    const leaving = new AbortController()
    const ended = terminal.json(`logs --follow --app ${site.applicationId}`, {
      signal: leaving.signal,
      async fetch(input, init) {
        const answer = await fetch(input, init)
        if (!isListed && (input as string).includes('/runtime-logs')) {
          isListed = true
          await print(site, ['in between'])
        }
        return answer
      },
      onStdout: (text) => void (text.includes('in between') && leaving.abort('SIGINT')),
    })
    expect(messagesOf(await ended)).toEqual(['in between'])
  })

  test('logs --follow says how many requests were lost, and where', async () => {
    const site = await newSite()
    const events = [`event: gap\ndata: ${JSON.stringify({ missed: 7, isMore: true })}\n\n`, ': beat\n\n']
    const gapFetch: typeof fetch = async (input, init) =>
      (input as string).includes('/requests/stream')
        ? new Response(
            new ReadableStream({
              start: (controller) => events.forEach((event) => controller.enqueue(new TextEncoder().encode(event))),
            }),
            { headers: { 'content-type': 'text/event-stream' } },
          )
        : fetch(input, init)
    for (const isJson of [true, false]) {
      const leaving = new AbortController()
      const ended = await terminal.run(
        [...`logs --requests --follow --app ${site.applicationId}`.split(' '), ...(isJson ? ['--json'] : [])],
        {
          signal: leaving.signal,
          fetch: gapFetch,
          onStdout: (text) => void (/lost|missing/.test(text) && leaving.abort('SIGINT')),
        },
      )
      if (isJson) expect([ended.code, ended.events]).toEqual([130, [{ type: 'lost', missed: 7, isMore: true }]])
      else expect(ended.stdout).toBe('7 or more requests are missing here\n')
    }
  })

  test('logs --follow of a build ends with it, and with 6 if it failed', async () => {
    const { applicationId } = await newSite()
    const schemas = await openSchemas()
    const site = await terminal.folder('site', { 'index.html': 'hello' })
    const { document } = await terminal.json(`deploy --no-wait --app ${applicationId}`, { cwd: site })
    const id = document.data.id as string
    const followed = await terminal.json(`logs ${id} --build --follow`)
    expect([followed.code, schemas.check('logs', followed.document), followed.document.data.status]).toEqual([
      0,
      [],
      'ACTIVE',
    ])
    expect(followed.events.map(({ type }: { type: string }) => type)).toContain('log')
    // Ahead of the lines that were written in it.
    expect(followed.events).toContainEqual({ type: 'status', status: 'ACTIVE', failureReason: null })

    const made = await server.call(owner.token, 'POST /deployments', { applicationId })
    await server.call(owner.token, `POST /deployments/${made.body.id}/cancel`)
    const failed = await terminal.json(`logs ${made.body.id} --build --follow`)
    expect([failed.code, failed.document]).toEqual([
      6,
      expect.objectContaining({ reason: 'deployment_failed', message: 'Cancelled' }),
    ])
    // Whoever reads the log of a build that failed has read it.
    expect((await terminal.json(`logs ${made.body.id} --build`)).code).toBe(0)
  })

  // The last: the clock that it moves ends the tokens of the others.
  test('logs --follow shows each line once through a cut, a restart of the service and the end of the token', async () => {
    const site = await newSite()
    const cable = await startCable(new URL(server.apiUrl))
    onTestFinished(() => cable.close())
    // The sign-in of a person, at the address of the cable.
    const at = await newTerminal(server)
    const begun = await at.json('login')
    const { url: completeUrl, userCode } = begun.document.data as { url: string; userCode: string }
    await approveDevice({ completeUrl, userCode }, owner.person)
    expect((await at.json('login --resume')).code).toBe(0)
    const baseUrl = cable.url.replace(/\/$/, '')
    const stored = await at.readCredentials()
    stored.profiles.default.baseUrl = stored.profiles.default.signIn.baseUrl = baseUrl
    await writeFile(at.credentials, JSON.stringify(stored), { mode: 0o600 })

    await print(site, ['before 1', 'before 2'])
    const following = follow(at, `logs --follow --app ${site.applicationId}`, { PLATFORM_API_URL: baseUrl })
    await following.has('before 2')
    await print(site, ['live'])
    await following.has('"live"')
    // The connection breaks.
    cable.cut()
    await print(site, ['during the cut'])
    await cable.mend()
    await following.has('during the cut')
    // The service is away for a while, and the token ends meanwhile.
    cable.cut()
    server.clock.advance(301_000)
    await print(site, ['during the restart 1', 'during the restart 2'])
    await cable.mend()
    await following.has('during the restart 2')
    await print(site, ['after'])
    await following.has('"after"')
    const ended = await following.leave()
    expect([ended.code, messagesOf(ended)]).toEqual([
      130,
      ['before 1', 'before 2', 'live', 'during the cut', 'during the restart 1', 'during the restart 2', 'after'],
    ])
    expect((await at.readCredentials()).profiles.default.signIn.refreshToken).not.toBe(
      stored.profiles.default.signIn.refreshToken,
    )
  })
})
