import { fileURLToPath } from 'node:url'
import type { Lab } from '../lab.ts'
import { sendTransfers, type TransferOrder } from '../send-transfers.ts'
import { openBucket, type ObjectServer, startObjectServers } from '../storage.ts'
import type { Suite, Trial } from '../suite.ts'

const tusServer = fileURLToPath(import.meta.resolve('../peers/tus-server.ts'))
const LARGE = 64
const TUS = 8
const CONNECTIONS = 4

const trial = (
  { env }: Lab,
  name: string,
  pid: number | undefined,
  order: Omit<TransferOrder, 'connections' | 'seconds'>,
): Trial => ({
  name,
  pid,
  measure: (seconds) => sendTransfers({ ...order, connections: CONNECTIONS, seconds }, env),
})

const byS3 = ({ origin, path, credentials }: ObjectServer, kind: 'PUT' | 'GET', below: string) => ({
  origin,
  path: path + below,
  how: { kind, credentials },
  mebibytes: LARGE,
})

export const putLarge: Suite = {
  name: 'put-64m',
  work: `PUT of ${LARGE} MiB over /s3, ${CONNECTIONS} at once: hashed, held against the signed hash, synced`,
  async prepare(lab) {
    const of = (server: ObjectServer) => trial(lab, server.name, server.pid, byS3(server, 'PUT', '/put/{request}'))
    const ours = await openBucket(lab)
    const { s3rver, bare, radosgw } = await startObjectServers(lab)
    return {
      unit: 'MiB',
      ours: of(ours),
      peers: [
        { ...of(bare), aim: { throughputRatioMin: 0.85 } },
        ...[s3rver, ...radosgw].map((each) => ({ ...of(each), aim: {} })),
      ],
    }
  },
}

export const getLarge: Suite = {
  name: 'get-64m',
  work: `GET of ${LARGE} MiB over /s3, ${CONNECTIONS} at once`,
  async prepare(lab) {
    const of = (server: ObjectServer) => trial(lab, server.name, server.pid, byS3(server, 'GET', '/get/0'))
    const ours = await openBucket(lab)
    const { s3rver, bare, radosgw } = await startObjectServers(lab)
    for (const server of [ours, s3rver, bare, ...radosgw])
      await sendTransfers({ ...byS3(server, 'PUT', '/get/0'), connections: 1, seconds: 0.001 }, lab.env)
    return {
      unit: 'MiB',
      ours: of(ours),
      peers: [
        { ...of(bare), aim: { throughputRatioMin: 0.85 } },
        ...[s3rver, ...radosgw].map((each) => ({ ...of(each), aim: {} })),
      ],
    }
  },
}

export const tus: Suite = {
  name: 'tus',
  work: `uploads of ${TUS} MiB over /files, created and sent in one PATCH, ${CONNECTIONS} at once`,
  async prepare(lab) {
    const ours = await openBucket(lab)
    const platform = await lab.platform()
    const peer = await lab.startPeer('tus-server', tusServer, { folder: await lab.makeFolder() })
    const metadata = { applicationId: ours.applicationId, bucket: 'bench', key: 'tus/{request}' }
    const order = { path: '/files', mebibytes: TUS }
    const how = { kind: 'tus', metadata } as const
    return {
      unit: 'MiB',
      ours: {
        name: 'ours',
        pid: ours.pid,
        measure: async (seconds) => {
          const headers = { authorization: `Bearer ${await platform.userToken()}` }
          const { env } = lab
          return sendTransfers(
            { ...order, origin: ours.origin, how: { ...how, headers }, connections: CONNECTIONS, seconds },
            env,
          )
        },
      },
      peers: [
        {
          ...trial(lab, '@tus/server', peer.pid, { ...order, origin: peer.origin, how: { ...how, headers: {} } }),
          aim: {},
        },
      ],
    }
  },
}
