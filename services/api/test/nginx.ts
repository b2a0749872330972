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

const configurationOf = ({ port, upstreams }: Site): string => `
  upstream site_${port} {
    least_conn;
    ${upstreams.map((each) => `server 127.0.0.1:${each} max_fails=1 fail_timeout=${FAIL_TIMEOUT_MS / 1_000}s;`).join('\n')}
    keepalive 32;
  }
  server {
    listen 127.0.0.1:${port};
    location / { proxy_pass http://site_${port}; }
  }`

/** nginx as infra/proxy/nginx.conf configures it, before these ports; it ends with the test. Returns what reads its log of errors. */
export async function startNginx(sites: readonly Site[]): Promise<() => Promise<string>> {
  const folder = await mkdtemp(join(tmpdir(), 'platform-nginx-'))
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  )
  await writeFile(
    join(folder, 'nginx.conf'),
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
      ${sites.map(configurationOf).join('\n')}
    }`,
  )
  const child = spawn('nginx', ['-p', folder, '-c', join(folder, 'nginx.conf')], { stdio: 'ignore' })
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
  return readErrors
}
