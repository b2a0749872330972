import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { open, readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { StartProblem } from './start-problem.ts'

const schema = z.object({
  /** `<id>:<base64 of 32 bytes>`: seals data that the services store, which is lost without it. */
  masterKeys: z.string(),
  demoPassword: z.string(),
  confidentialClientSecret: z.string(),
  databasePasswords: z.object({ api: z.string(), idp: z.string() }),
})

export type Secrets = z.output<typeof schema>

/**
 * Reads the secrets of a data folder; created at its first start, readable only by its owner.
 *
 * Throws StartProblem if they are damaged, or missing from a folder that holds data sealed with them.
 */
export async function readSecrets(dataFolder: string): Promise<Secrets> {
  const file = join(dataFolder, 'secrets.json')
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw new StartProblem(`${file} cannot be read (${error.code}): start as the account that made it.`)
  })
  if (text === undefined) {
    if (existsSync(join(dataFolder, 'postgres', 'cluster'))) {
      throw new StartProblem(
        `${file} is gone, and the data beside it cannot be read without it: restore the file, or start over in an empty DATA_DIR.`,
      )
    }
    return makeSecrets(file)
  }
  try {
    return schema.parse(JSON.parse(text))
  } catch {
    throw new StartProblem(`${file} is damaged: restore it, or start over in an empty DATA_DIR.`)
  }
}

async function makeSecrets(file: string): Promise<Secrets> {
  const secrets: Secrets = {
    masterKeys: `k1:${randomBytes(32).toString('base64')}`,
    demoPassword: randomBytes(12).toString('base64url'),
    confidentialClientSecret: randomBytes(32).toString('base64url'),
    databasePasswords: { api: randomBytes(24).toString('hex'), idp: randomBytes(24).toString('hex') },
  }
  const handle = await open(`${file}.new`, 'w', 0o600)
  try {
    await handle.writeFile(`${JSON.stringify(secrets, null, 2)}\n`)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await rename(`${file}.new`, file)
  return secrets
}
