import { truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { memoryOfServer } from '../process-costs.ts'
import { openBucket } from '../storage.ts'
import type { Suite, Trial } from '../suite.ts'

const server = fileURLToPath(import.meta.resolve('../peers/json-server.ts'))
const callerProgram = fileURLToPath(import.meta.resolve('../peers/sdk-caller.ts'))
const uploader = fileURLToPath(import.meta.resolve('../peers/sdk-uploader.ts'))
const encode = (part: object): string => Buffer.from(JSON.stringify(part)).toString('base64url')

export const sdkCall: Suite = {
  name: 'sdk-call',
  work: 'a program calls an operation that answers at once, one call after the other: what the calls cost the program',
  async prepare(lab) {
    const { origin: target } = await lab.startPeer('json-server', server, {}, 'load')
    const token = `${encode({ alg: 'none' })}.${encode({ aud: target })}.x`
    const caller = async (how: 'sdk' | 'fetch'): Promise<Trial> => {
      const { origin, pid } = await lab.startPeer(how, callerProgram, { target, how, token })
      return {
        name: how,
        pid,
        async measure(seconds) {
          const startedAt = performance.now()
          const calls = Number(await (await fetch(`${origin}/?seconds=${seconds}`)).text())
          return { perSecond: (calls * 1_000) / (performance.now() - startedAt) }
        },
      }
    }
    return { ours: await caller('sdk'), peers: [{ ...(await caller('fetch')), aim: { cpuRatioMax: 1.25 } }] }
  },
}

const BYTES = 1_000_000_000
const GROWTH_MB_MAX = 200

export const sdkUpload: Suite = {
  name: 'sdk-upload',
  work: `a program stores a file of 1 GB by uploadObject: how far its memory grows, ${GROWTH_MB_MAX} MB at most`,
  isLarge: true,
  async prepare(lab) {
    const bucket = await openBucket(lab)
    const path = join(await lab.makeFolder(), 'large')
    await writeFile(path, 'the beginning of many zeros')
    await truncate(path, BYTES)
    const { origin, pid } = await lab.startPeer('sdk-uploader', uploader, {
      // The URLs of uploads are those of the platform's own address.
      baseUrl: bucket.origin.replace('127.0.0.1', 'localhost'),
      id: bucket.credentials.accessKeyId,
      secret: bucket.credentials.secretAccessKey,
      applicationId: bucket.applicationId,
      path,
    })
    const memory = () => memoryOfServer(pid, true) ?? 0
    const before = memory()
    return {
      unit: 'MiB',
      ours: {
        name: 'ours',
        pid,
        isAlone: true,
        async measure() {
          let most = 0
          const watching = setInterval(() => (most = Math.max(most, memory())), 20)
          const startedAt = performance.now()
          const answer = await fetch(origin, { method: 'POST' }).finally(() => clearInterval(watching))
          const took = (performance.now() - startedAt) / 1_000
          if (!answer.ok) throw new Error(`The upload failed: ${await answer.text()}`)
          if (most - before > GROWTH_MB_MAX) throw new Error(`The memory grew by ${Math.round(most - before)} MB`)
          return {
            perSecond: BYTES / 1_048_576 / took,
            seconds: took,
            facts: { 'MB before': before, 'MB at most': most },
          }
        },
      },
      peers: [],
    }
  },
}
