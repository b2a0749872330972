import { createHash } from 'node:crypto'
import { strictEqual } from 'node:assert/strict'
import { openBucket, type ObjectServer, putObjects, startObjectServers, textOf } from '../storage.ts'
import type { Contender, Suite } from '../suite.ts'

const SMALL = 4_096
/** As many as there are client addresses. */
const OBJECTS = 4_096

const contenderOf = ({ path, ...server }: ObjectServer, below: string): Contender => ({ ...server, path: path + below })

export const putSmall: Suite = {
  name: 'put-4k',
  work: 'PUT of 4 KiB over /s3, each under a new key: signature, hashes, synced before the answer',
  async prepare(lab) {
    const body = textOf(SMALL)
    const below = '/put/{request}'
    const ours = await openBucket(lab)
    const { s3rver, bare, radosgw } = await startObjectServers(lab)
    return {
      load: {
        method: 'PUT',
        path: '',
        headers: async () => ({ 'content-type': 'application/octet-stream' }),
        body,
        addressBlock: 50,
        connections: 64,
      },
      ours: contenderOf(ours, below),
      peers: [
        { ...contenderOf(s3rver, below), aim: { throughputRatioMin: 1.5 } },
        { ...contenderOf(bare, below), aim: { throughputRatioMin: 0.5 } },
        ...radosgw.map((each) => ({ ...contenderOf(each, below), aim: {} })),
      ],
      async check(name, answer) {
        strictEqual(answer.headers.get('etag'), `"${createHash('md5').update(body).digest('hex')}"`, name)
      },
    }
  },
}

export const getSmall: Suite = {
  name: 'get-4k',
  work: `GET of 4 KiB over /s3, one of ${OBJECTS} objects after the other: signature, limit, scope, bytes`,
  async prepare(lab) {
    const body = textOf(SMALL)
    const below = '/get/{address}'
    const ours = await openBucket(lab)
    const { s3rver, bare, radosgw } = await startObjectServers(lab)
    for (const server of [ours, s3rver, bare, ...radosgw]) await putObjects(server, 'get', OBJECTS, body)
    return {
      load: { method: 'GET', path: '', headers: async () => ({}), addressBlock: 51, connections: 64 },
      ours: contenderOf(ours, below),
      peers: [
        { ...contenderOf(s3rver, below), aim: { throughputRatioMin: 3 } },
        { ...contenderOf(bare, below), aim: { throughputRatioMin: 0.5 } },
        ...radosgw.map((each) => ({ ...contenderOf(each, below), aim: {} })),
      ],
      async check(name, answer) {
        strictEqual(await answer.text(), body, name)
      },
    }
  },
}
