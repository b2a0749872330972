import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { programOn } from '../cores.ts'
import type { Lab } from '../lab.ts'
import { type ObjectServer, openBucket, startObjectServers, textOf } from '../storage.ts'
import type { Suite, Trial } from '../suite.ts'

const FOLDERS = 100
const FILES = 10_000
const AT_ONCE = '16'
/** Of each tenth file this, of the others the first tenth of it. */
const LENGTH_MAX = 20_000

const run = promisify(execFile)

async function makeFiles(folder: string): Promise<void> {
  const text = textOf(LENGTH_MAX)
  for (let n = 0; n < FILES; n++) {
    const within = join(folder, `folder-${n % FOLDERS}`)
    if (n < FOLDERS) await mkdir(within)
    await writeFile(join(within, `file ${n}.txt`), n % 10 === 0 ? text : text.slice(0, LENGTH_MAX / 10))
  }
}

/** Each sync goes below a prefix of its own, from an address of its own, so that it never meets a limit. */
function trial({ env }: Lab, files: string, server: ObjectServer): Trial {
  let syncs = 0
  const { name, pid, origin, path, credentials } = server
  const position = path.lastIndexOf('/')
  const [endpoint, bucket] = [origin + path.slice(0, position), path.slice(position + 1)]
  const variables = {
    ...env,
    RCLONE_CONFIG: join(files, 'none'),
    RCLONE_CONFIG_SERVER_TYPE: 's3',
    RCLONE_CONFIG_SERVER_PROVIDER: 'Other',
    RCLONE_CONFIG_SERVER_ACCESS_KEY_ID: credentials.accessKeyId,
    RCLONE_CONFIG_SERVER_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    RCLONE_CONFIG_SERVER_ENDPOINT: endpoint,
    RCLONE_RETRIES: '1',
    RCLONE_LOW_LEVEL_RETRIES: '1',
    RCLONE_TRANSFERS: AT_ONCE,
    RCLONE_CHECKERS: AT_ONCE,
  }
  return {
    name,
    pid,
    async measure() {
      const below = `server:${bucket}/sync-${syncs++}`
      const address = `X-Forwarded-For: 10.60.0.${syncs}`
      const [command, args] = programOn('load', 'rclone', ['sync', '--header', address, files, below])
      const startedAt = performance.now()
      await run(command, args, { env: variables })
      const seconds = (performance.now() - startedAt) / 1_000
      return { perSecond: FILES / seconds, seconds }
    },
  }
}

export const rcloneSync: Suite = {
  name: 'rclone-sync',
  work: `rclone sync of ${FILES} files of 2 and 20 KB, ${AT_ONCE} at once`,
  isLarge: true,
  async prepare(lab) {
    const files = await lab.makeFolder()
    await makeFiles(files)
    const ours = await openBucket(lab)
    const { s3rver, radosgw } = await startObjectServers(lab)
    return {
      unit: 'files',
      ours: trial(lab, files, ours),
      peers: [s3rver, ...radosgw].map((each) => ({ ...trial(lab, files, each), aim: {} })),
    }
  },
}
