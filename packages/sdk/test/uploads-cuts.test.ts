// engines: s3
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { newObjectsUrl } from '@platform/testkit/objects'
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { visit } from '../../../services/api/test/deploy.ts'
import { openDice } from '../../../services/api/test/dice.ts'
import { storageProcess } from '../../../services/api/test/storage-process.ts'
import { zipOf } from '../../../services/api/test/zip.ts'
import { apiKey, type Fetch, getObjectAccessUrl, Platform } from '../src/index.ts'
import { deployArchive, uploadObject } from '../src/uploads/index.ts'
import { startBreakingCable } from './breaking-cable.ts'
import { content, sha256 } from './content.ts'

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0.1))
afterEach(() => void vi.restoreAllMocks())

const CUTS = 20

test('an object and a deployment are whole after 20 cuts each, and a restart of the service while both are under way', async () => {
  const dice = openDice()
  const { url } = await newObjectsUrl()
  if (url.startsWith('file:')) onTestFinished(() => rm(fileURLToPath(url), { recursive: true, force: true }))
  const { key, application, bucket, origin, edgePort, start } = await storageProcess(url)
  const place = { applicationId: application.id, environment: 'production' }
  const platform = (through: Fetch = fetch) =>
    new Platform({ baseUrl: origin, credential: apiKey({ id: key.id, secret: key.secret }), fetch: through })

  let { child } = await start()
  let restarted: Promise<void> | undefined
  const killed = Promise.withResolvers<void>()
  async function restart(): Promise<void> {
    child.kill('SIGKILL')
    await once(child, 'exit')
    killed.resolve()
    ;({ child } = await start())
  }
  const waiting = new Set<string>()
  /** Each waits at its third cut for the other, and for the end of the service. */
  const newCable = (name: string) => {
    const gaps = Array.from({ length: CUTS }, () => dice.integer(50_000, 450_000))
    return startBreakingCable(origin, gaps, (cut) => {
      if (cut < 3) return undefined
      waiting.add(name)
      if (waiting.size === 2) restarted ??= restart()
      return killed.promise
    })
  }
  const [toObject, toDeployment] = await Promise.all([newCable('object'), newCable('deployment')])

  const data = content(12_000_000)
  const sent: number[] = []
  const uploading = uploadObject(platform(toObject.fetch), {
    ...place,
    bucket: bucket.name,
    key: 'large.bin',
    data,
    onProgress({ sentBytes, totalBytes }) {
      sent.push(sentBytes)
      expect(totalBytes).toBe(data.length)
    },
  })
  const archive = zipOf([
    { name: 'index.html', content: 'Hello' },
    { name: 'large.bin', content: Buffer.from(data), isStored: true },
  ])
  const deploying = deployArchive(platform(toDeployment.fetch), {
    deployment: { applicationId: application.id },
    archive: new Blob([new Uint8Array(archive)]).stream(),
  })
  const [object, deployment] = await Promise.all([uploading, deploying])
  await restarted
  expect([toObject.broken(), toDeployment.broken(), restarted === undefined]).toEqual([CUTS, CUTS, false])

  expect(sent).toEqual(sent.toSorted((x, y) => x - y))
  expect(object).toMatchObject({ key: 'large.bin', contentLength: data.length, checksumSha256: sha256(data) })
  const access = await getObjectAccessUrl(platform(), { ...place, objectId: object.id })
  expect(sha256(await (await fetch(access.url)).bytes())).toBe(sha256(data))

  expect(deployment.status).toBe('ACTIVE')
  const { body } = await visit({ edgeUrl: `http://localhost:${edgePort}` }, new URL(deployment.url).host, '/large.bin')
  expect(sha256(body)).toBe(sha256(data))
})
