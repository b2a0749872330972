import { rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'

const schema = z.object({ baseUrl: z.string(), idpUrl: z.string() })

/** The origins of a running platform. */
export type Addresses = z.output<typeof schema>

const fileOf = (dataFolder: string): string => join(dataFolder, 'addresses.json')

/** Records where the platform of this folder answers, for programs that know the folder. undefined: it is stopping. */
export function tellAddresses(dataFolder: string, addresses: Addresses | undefined): void {
  if (addresses === undefined) rmSync(fileOf(dataFolder), { force: true })
  else writeFileSync(fileOf(dataFolder), `${JSON.stringify(schema.parse(addresses))}\n`, { mode: 0o600 })
}

/** The last recorded addresses of this folder's platform; undefined if there are none. It may have been killed since. */
export async function readAddresses(dataFolder: string): Promise<Addresses | undefined> {
  try {
    return schema.parse(JSON.parse(await readFile(fileOf(dataFolder), 'utf8')))
  } catch {
    return undefined
  }
}
