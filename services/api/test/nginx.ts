import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'

/** How long nginx leaves a server alone that refused a connection; it counts whole seconds, so up to twice as long. */
const FAIL_TIMEOUT_MS = 1_000

/** Each request takes two. With the default of 512, nginx silently cuts some of a burst, such as after a pause of the machine. */
const CONNECTIONS_MAX = 8_192

/** A port of this machine, or another address as nginx writes it. */
type Place = number | string

/** What nginx listens on, and the processes behind it. */
interface Site {
  port: Place
  upstreams: readonly Place[]
}

const addressOf = (place: Place): string => (typeof place === 'number' ? `127.0.0.1:${place}` : place)

const configurationOf = ({ port, upstreams }: Site, n: number, leftOut: ReadonlySet<Place>): string => `
  upstream site_${n} {
    least_conn;
    ${upstreams
      .map(
        (each) =>
          `server ${addressOf(each)} max_fails=1 fail_timeout=${FAIL_TIMEOUT_MS / 1_000}s${leftOut.has(each) ? ' down' : ''};`,
      )
      .join('\n')}
    keepalive 32;
  }
  server {
    listen ${addressOf(port)};
    location / { proxy_pass http://site_${n}; }
  }`

export interface Nginx {
  /** Returns its log of errors. */
  readErrors(): Promise<string>
  /** Sends no more requests to an upstream, and returns once those that come are sent elsewhere; those under way go on. */
  leaveOut(upstream: Place): Promise<void>
  /** Sends requests to an upstream again that was left out. */
  takeIn(upstream: Place): Promise<void>
}

/**
 * nginx as infra/proxy/nginx.conf configures it, before these ports; it ends with the test.
 *
 * leftOut: upstreams that are left out at first. namespace: of the network, as `ip netns` names it; default: this machine's own.
 */
export async function startNginx(
  sites: readonly Site[],
  { leftOut: absent = [], namespace }: { leftOut?: readonly Place[]; namespace?: string } = {},
): Promise<Nginx> {
  const folder = await mkdtemp(join(tmpdir(), 'platform-nginx-'))
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  )
  const file = join(folder, 'nginx.conf')
  const leftOut = new Set(absent)
  const configure = () =>
    writeFile(
      file,
      `daemon off;
    pid ${folder}/nginx.pid;
    error_log ${folder}/error.log;
    events { worker_connections ${CONNECTIONS_MAX}; }
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
      ${sites.map((site, n) => configurationOf(site, n, leftOut)).join('\n')}
    }`,
    )
  await configure()
  const args = ['-p', folder, '-c', file]
  const child =
    namespace === undefined
      ? spawn('nginx', args, { stdio: 'ignore' })
      : spawn('nsenter', [`--net=/run/netns/${namespace}`, 'nginx', ...args], { stdio: 'ignore' })
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
