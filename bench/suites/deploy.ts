import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { buffer } from 'node:stream/consumers'
import postgres from 'postgres'
import { ZipFile } from 'yazl'
import type { Lab } from '../lab.ts'
import type { Suite, Trial } from '../suite.ts'

const FEW = 100
const MANY = 5_000
const FILE_BYTES = 4_096

/** A site of so many files; no two deployments of it have a file in common. */
async function zipOf(files: number): Promise<Uint8Array<ArrayBuffer>> {
  const zip = new ZipFile()
  const content = randomBytes(FILE_BYTES)
  for (let n = 0; n < files; n++) {
    content.writeUInt32LE(n)
    zip.addBuffer(Buffer.from(content), n === 0 ? 'index.html' : `assets/${n % 64}/file-${n}.bin`, { compress: false })
  }
  zip.end()
  return new Uint8Array(await buffer(zip.outputStream))
}

/** Deploys one site after another; what counts is the time from the end of the upload to ACTIVE. */
function trial(name: string, lab: Lab, applicationId: string, makeZip: () => Promise<Uint8Array<ArrayBuffer>>): Trial {
  async function deployOnce(): Promise<number> {
    const platform = await lab.platform()
    const { id } = await platform.call<{ id: string }>('POST', '/deployments', { applicationId })
    const path = `/deployments/${id}`
    const { uploadId } = await platform.call<{ uploadId: string }>('POST', `${path}/upload/start`, {})
    const { url } = await platform.call<{ url: string }>('POST', `${path}/upload/part`, { uploadId, partNumber: 1 })
    const { headers } = await fetch(url, { method: 'PUT', body: await makeZip() })
    const startedAt = performance.now()
    const parts = [{ partNumber: 1, etag: headers.get('etag') }]
    await platform.call('POST', `${path}/upload/complete`, { uploadId, parts })
    for (;;) {
      const { status } = await platform.call<{ status: string }>('GET', path)
      if (status === 'ACTIVE') return performance.now() - startedAt
      if (status === 'FAILED') throw new Error(`${name}: the deployment failed`)
      await sleep(5)
    }
  }
  return {
    name,
    async measure(seconds) {
      const times: number[] = []
      const startedAt = performance.now()
      while (performance.now() - startedAt < seconds * 1_000 || times.length === 0) times.push(await deployOnce())
      const took = (performance.now() - startedAt) / 1_000
      const sorted = times.toSorted((a, b) => a - b)
      const percentile = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
      return { perSecond: times.length / took, seconds: took, p50Ms: percentile(0.5), p99Ms: percentile(0.99) }
    },
  }
}

/** From the last byte of an upload to ACTIVE, on an idle worker that shares the API's core. */
export const deploy: Suite = {
  name: 'deploy',
  work: `upload/complete to ACTIVE: a site of ${FEW} files that are all new, the same again, and ${MANY} files`,
  async prepare(lab) {
    const platform = await lab.platform()
    const organization = await platform.call<{ id: string }>('POST', '/organizations', {
      name: `Deploy ${randomBytes(4).toString('hex')}`,
    })
    const { id } = await platform.call<{ id: string }>('POST', '/applications', {
      organizationId: organization.id,
      name: 'Deploy',
    })
    const sql = postgres(lab.databaseUrl, { max: 1, onnotice: () => {} })
    await sql`insert into quota_overrides values (${organization.id}, 'deployments_per_day', 100000, now())`
    await sql.end()
    await platform.startWorker()
    const same = await zipOf(FEW)
    const sameMany = await zipOf(MANY)
    return {
      ours: trial(`${FEW} new files`, lab, id, () => zipOf(FEW)),
      aim: { p50MsMax: 1_000 },
      peers: [
        { ...trial(`${FEW} files again`, lab, id, async () => same), aim: {} },
        { ...trial(`${MANY} new files`, lab, id, () => zipOf(MANY)), aim: {} },
        { ...trial(`${MANY} files again`, lab, id, async () => sameMany), aim: {} },
      ],
    }
  },
}
