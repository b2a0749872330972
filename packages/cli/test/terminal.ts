import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { env } from 'node:process'
import { dirname, join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import type { StoredToken } from '@platform/sdk'
import { everyScope, type Person, type TestPlatform } from '@platform/testing/platform'
import { run } from '../src/run.ts'

/** The document of `--json`. */
export interface Document {
  status: 'ok' | 'error' | 'action_required'
  reason?: string
  message?: string
  hint?: string
  requestId?: string
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into documents of every shape
  data?: any
  next: { command: string; when: string }[]
  schemaVersion: number
}

export interface Ended {
  code: number
  stdout: string
  stderr: string
  /** The last line of stdout, where it is JSON. */
  document: Document
  /** The lines of stdout before it. */
  // oxlint-disable-next-line typescript/no-explicit-any -- events of every shape
  events: any[]
}

export interface Given {
  cwd?: string
  env?: Record<string, string | undefined>
  stdin?: string | Buffer
  /** What a person types, each once stderr shows the text before it. */
  typed?: readonly (readonly [shown: string, keys: string])[]
  /** Whether stdin and stderr are terminals. */
  isTerminal?: boolean
  signal?: AbortSignal
  fetch?: typeof fetch
  firstAnswerMs?: number
  /** Told of what is written to stderr, as it is. */
  onStderr?: (text: string) => void
  onStdout?: (text: string) => void
}

/** Somebody's machine: a home, and what was opened in the browser. */
export class Terminal {
  readonly home: string
  readonly opened: string[] = []
  readonly server: TestPlatform

  constructor(home: string, server: TestPlatform) {
    this.home = home
    this.server = server
  }

  get credentials(): string {
    return join(this.home, '.config/platform/credentials.json')
  }

  // oxlint-disable-next-line typescript/no-explicit-any -- of every shape
  async readCredentials(): Promise<any> {
    return JSON.parse(await readFile(this.credentials, 'utf8')) as unknown
  }

  /** Makes a folder with files below the home. Returns its path. */
  async folder(name: string, files: Record<string, string | Buffer> = {}): Promise<string> {
    const folder = join(this.home, name)
    await mkdir(folder, { recursive: true })
    for (const [path, content] of Object.entries(files)) {
      await mkdir(dirname(join(folder, path)), { recursive: true })
      await writeFile(join(folder, path), content)
    }
    return folder
  }

  /** What the environment of a process here is. */
  get env(): Record<string, string | undefined> {
    return { PATH: env['PATH'], HOME: this.home, PLATFORM_API_URL: this.server.apiUrl }
  }

  /** Runs a command line in this process. */
  async run(line: string | readonly string[], given: Given = {}): Promise<Ended> {
    const argv = typeof line === 'string' ? wordsOf(line) : [...line]
    const typed = [...(given.typed ?? [])]
    const source = given.typed
      ? new PassThrough()
      : Readable.from(given.stdin === undefined ? [] : [Buffer.from(given.stdin)])
    // Questions turn the echo of a terminal off.
    const stdin = Object.assign(source, { isTTY: given.isTerminal === true, setRawMode: () => {} })
    let unanswered = ''
    const answer = (text: string): void => {
      given.onStderr?.(text)
      unanswered += text
      const [shown, keys] = typed[0] ?? []
      if (shown === undefined || !unanswered.includes(shown)) return
      typed.shift()
      unanswered = ''
      // Not while the question is being drawn.
      setImmediate(() => source instanceof PassThrough && source.write(keys))
    }
    const collect = (tell?: (text: string) => void) => {
      const chunks: Buffer[] = []
      const stream = Object.assign(new PassThrough(), { isTTY: given.isTerminal === true })
      stream.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        tell?.(chunk.toString())
      })
      return { stream, text: () => Buffer.concat(chunks).toString() }
    }
    const stdout = collect(given.onStdout)
    const stderr = collect(answer)
    const code = await run(argv, {
      env: { ...this.env, ...given.env },
      cwd: given.cwd ?? this.home,
      stdin,
      stdout: stdout.stream,
      stderr: stderr.stream,
      signal: given.signal ?? new AbortController().signal,
      program: 'platform',
      fetch: given.fetch ?? ((input, init) => fetch(input, init)),
      openAddress: (url) => void this.opened.push(url),
      firstAnswerMs: given.firstAnswerMs ?? 30_000,
    })
    await new Promise((resolve) => setImmediate(resolve))
    return endedWith(code, stdout.text(), stderr.text())
  }

  /** Runs a command line with `--json`. */
  json(line: string | readonly string[], given?: Given): Promise<Ended> {
    return this.run([...(typeof line === 'string' ? wordsOf(line) : line), '--json'], given)
  }
}

export function endedWith(code: number, stdout: string, stderr: string): Ended {
  const lines = stdout.split('\n').filter((line) => line !== '')
  const last = lines.at(-1) ?? ''
  const isJson = last.startsWith('{')
  return {
    code,
    stdout,
    stderr,
    document: (isJson ? JSON.parse(last) : {}) as Document,
    events: isJson ? lines.slice(0, -1).map((line) => JSON.parse(line) as unknown) : [],
  }
}

/** The words of a line, as a shell reads them: quotes alone, and nothing that expands. */
export function wordsOf(line: string): string[] {
  const words: string[] = []
  for (const [word] of line.matchAll(/(?:[^\s'"]+|'[^']*'|"[^"]*")+/g))
    words.push(word.replace(/'([^']*)'|"([^"]*)"/g, (_, single?: string, double?: string) => single ?? double ?? ''))
  return words
}

/** A machine on which nobody is signed in. */
export const newTerminal = async (server: TestPlatform): Promise<Terminal> =>
  new Terminal(await mkdtemp(join(tmpdir(), 'cli-')), server)

/** A machine on which somebody is signed in, by an access token. */
export async function signedInTerminal(
  server: TestPlatform,
  person: Person,
  scopes: readonly string[] = everyScope,
): Promise<Terminal> {
  const terminal = await newTerminal(server)
  const signIn: StoredToken = {
    baseUrl: server.apiUrl,
    issuer: server.idpUrl,
    clientId: server.publicClientId,
    accessToken: await person.token(scopes),
    expiresAt: Date.now() + 300_000,
    scope: scopes.join(' '),
  }
  const user = { id: person.userId, email: person.email, name: null }
  const profiles = { default: { baseUrl: server.apiUrl, user, signIn } }
  await terminal.folder('.config/platform')
  await writeFile(terminal.credentials, JSON.stringify({ current: 'default', profiles }), { mode: 0o600 })
  return terminal
}
