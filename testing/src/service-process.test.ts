import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { freePort } from '@platform/testkit/free-port'
import { expect, onTestFinished, test } from 'vitest'
import { startServiceProcess, statusOf, untilStatus } from './service-process.ts'

async function start(script: string) {
  const folder = await mkdtemp(join(tmpdir(), 'service-process-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const main = join(folder, 'main.mjs')
  await writeFile(main, script)
  const port = String(await freePort())
  const service = startServiceProcess(pathToFileURL(main), { PORT: port })
  return { ...service, url: `http://127.0.0.1:${port}/` }
}

test('waiting for a status fails with the stderr of a process that ends without it', async () => {
  const { url } = await start(`console.error('no database'); process.exitCode = 3`)
  await expect(untilStatus(url, 200)).rejects.toThrow(
    /until its process ended: \{ code: 3, stderr: 'no database\\n' \}/,
  )
})

test('waiting for a status ends once the process answers it', async () => {
  const { url } = await start(`
    import { createServer } from 'node:http'
    let asked = 0
    createServer((_, response) => response.writeHead(++asked < 3 ? 503 : 200).end()).listen(Number(process.env.PORT), '127.0.0.1')`)
  await untilStatus(url, 503)
  await untilStatus(url, 200)
  expect(await statusOf(url)).toBe(200)
})
