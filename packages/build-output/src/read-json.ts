import type { z } from 'zod'
import { type Tree, UnusableOutput } from './output.ts'

const MANIFEST_BYTES_MAX = 8 * 1024 * 1024
/** What writes JSON again calls itself for each level. */
const NESTING_MAX = 200

/** Reads and validates a manifest of an archive. Throws UnusableOutput that names it, and the invalid member. */
export async function readJson<T extends z.ZodType>(tree: Tree, path: string, schema: T): Promise<z.infer<T>> {
  if ((tree.files.get(path)?.bytes ?? 0) > MANIFEST_BYTES_MAX)
    throw new UnusableOutput(`${path} is larger than ${MANIFEST_BYTES_MAX / 1024 / 1024} MB.`)
  let value: unknown
  try {
    value = JSON.parse((await tree.read(path)).toString('utf8').replace(/^\uFEFF/, ''))
  } catch (error) {
    throw new UnusableOutput(`${path} is no JSON.`, { cause: error })
  }
  if (isDeeper(value, NESTING_MAX)) throw new UnusableOutput(`${path} is nested more than ${NESTING_MAX} levels deep.`)
  return parseManifest(schema, value, path)
}

/** Whether a value has members within members, more than so many times. */
function isDeeper(value: unknown, levels: number): boolean {
  let level = [value]
  for (let depth = 0; depth <= levels; depth++) {
    level = level.flatMap((each) =>
      typeof each === 'object' && each !== null
        ? Object.values(each).filter((member) => typeof member === 'object' && member !== null)
        : [],
    )
    if (level.length === 0) return false
  }
  return true
}

/** Validates a part of a manifest. where: the start of the error's sentence. Throws UnusableOutput. */
export function parseManifest<T extends z.ZodType>(schema: T, value: unknown, where: string): z.infer<T> {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const path = issue?.path.join('.') ?? ''
  throw new UnusableOutput(`${where}: ${path === '' ? '' : `${path}: `}${issue?.message ?? 'invalid'}.`)
}
