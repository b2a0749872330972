import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import { fromBufferPromise } from 'yauzl'
import { folder } from '../src/node/folder.ts'
import { type PackOptions, type PackPlan, planPack, zip } from '../src/pack/index.ts'

/** What a path of a folder holds: a file's content, or more of it, or where a link leads. */
export type Content = string | Uint8Array | { content: string; mode: number } | { link: string }

/** A folder of these files, in their order, until the test ends. */
export async function makeFolder(files: Record<string, Content>): Promise<string> {
  const top = await mkdtemp(join(tmpdir(), 'pack-'))
  onTestFinished(() => rm(top, { recursive: true }))
  for (const [path, made] of Object.entries(files)) {
    const place = join(top, path)
    await mkdir(dirname(place), { recursive: true })
    if (typeof made === 'string' || made instanceof Uint8Array) await writeFile(place, made)
    else if ('link' in made) await symlink(made.link, place)
    else {
      await writeFile(place, made.content)
      await chmod(place, made.mode)
    }
  }
  return top
}

export const planFolder = async (files: Record<string, Content>, options?: PackOptions): Promise<PackPlan> =>
  planPack(folder(await makeFolder(files)), options)

export const pathsOf = ({ files }: PackPlan): string[] => files.map(({ path }) => path)

export const archiveOf = (plan: Parameters<typeof zip>[0]): Promise<Buffer> => buffer(zip(plan))

/** The entries of a zip, in their order. */
export async function unpack(archive: Buffer): Promise<{ name: string; mode: number; content: Buffer }[]> {
  const entries: { name: string; mode: number; content: Buffer }[] = []
  const opened = await fromBufferPromise(archive)
  for await (const entry of opened.eachEntry())
    entries.push({
      name: entry.fileName,
      // Of other systems it is something else.
      mode: entry.versionMadeBy >> 8 === 3 ? entry.externalFileAttributes >>> 16 : 0,
      content: await buffer(await opened.openReadStreamPromise(entry)),
    })
  return entries
}
