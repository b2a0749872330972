import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'

/** How long nginx leaves a server alone that refused a connection; it counts whole seconds, so up to twice as long. */
const FAIL_TIMEOUT_MS = 1_000

/** A port that nginx listens on, and those of the processes behind it. */
interface Site {
  port: number
  upstreams: readonly number[]
}

const configurationOf = ({ port, upstreams }: Site, leftOut: ReadonlySet<number>): string => `
  upstream site_${port} {
    least_conn;
    ${upstreams
      .map(
        (each) =>
          `server 127.0.0.1:${each} max_fails=1 fail_timeout=${FAIL_TIMEOUT_MS / 1_000}s${leftOut.has(each) ? ' down' : ''};`,
      )
      .join('\n')}
    keepalive 32;
  }
  server {
    listen 127.0.0.1:${port};
    location / { proxy_pass http://site_${port}; }
  }`

export interface Nginx {
  /** Returns its log of errors. */
  readErrors(): Promise<string>
  /** Sends no more requests to a port, and returns once those that come are sent elsewhere; those under way go on. */
  leaveOut(port: number): Promise<void>
  /** Sends requests to a port again that was left out. */
  takeIn(port: number): Promise<void>
}

/** nginx as infra/proxy/nginx.conf configures it, before these ports; it ends with the test. */
export async function startNginx(sites: readonly Site[]): Promise<Nginx> {
  const folder = await mkdtemp(join(tmpdir(), 'platform-nginx-'))
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  )
  const file = join(folder, 'nginx.conf')
  const leftOut = new Set<number>()
  const configure = () =>
    writeFile(
      file,
      `daemon off;
    pid ${folder}/nginx.pid;
    error_log ${folder}/error.log;
    events {}
    http {
      access_log off;
      ${paths.join('\n')}
      proxy_http_version 1.1;
      proxy_set_header Connection '';
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_request_buffering off;
      proxy_buffering off;
      client_max_body_size 0;
      ${sites.map((site) => configurationOf(site, leftOut)).join('\n')}
    }`,
    )
  await configure()
  const child = spawn('nginx', ['-p', folder, '-c', file], { stdio: 'ignore' })
  onTestFinished(async () => {
    child.kill('SIGTERM')
    if (child.exitCode === null) await once(child, 'exit')
    await rm(folder, { recursive: true, force: true })
  })
  const readErrors = () => readFile(join(folder, 'error.log'), 'utf8').catch(() => '')
  // Written once it listens.
  const isListening = async () => {
    if (child.exitCode !== null) throw new Error(`nginx ended: ${await readErrors()}`)
    return ((await stat(join(folder, 'nginx.pid')).catch(() => undefined))?.size ?? 0) > 0
  }
  await expect.poll(isListening).toBe(true)

  /** Resolves once its new workers have taken over from those of before, which finish what is under way. */
  async function reload(): Promise<void> {
    const workers = async () =>
      (await readFile(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')).trim().split(' ')
    const before = await workers()
    const takesRequests = async (pid: string) => {
      const title = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
      return title !== '' && !title.includes('shutting down')
    }
    await configure()
    child.kill('SIGHUP')
    await expect.poll(async () => (await Promise.all(before.map(takesRequests))).includes(true)).toBe(false)
  }
  return {
    readErrors,
    async leaveOut(port) {
      leftOut.add(port)
      await reload()
    },
    async takeIn(port) {
      if (leftOut.delete(port)) await reload()
    },
  }
}
