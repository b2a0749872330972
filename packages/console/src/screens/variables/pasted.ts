import type { EnvironmentVariable } from '@platform/sdk'
import { DotenvError, problemOfKey, problemOfValue, readDotenv } from '@platform/sdk/dotenv'
import { bytes, number } from '../../words.ts'
import { type Layer, layerOf, mergeLayers } from './layers.ts'
import { copyOf } from './secrets.ts'

/** More is no file of variables: one value has 65,536 at most. In bytes of UTF-8. */
const BYTES_MAX = 524_288
/** More names are no file of variables either: each is a request of its own. */
const NAMES_MAX = 1_000

/** A text as a field gives it back: the browser makes line feeds of all line ends. */
export const inField = (text: string): string => text.replace(/\r\n?/g, '\n')

export interface PastedVariable {
  key: string
  value: string
  /** How often the text has the key; the last one counts. */
  times: number
}

/** What a text of a `.env` says. With problems there are no variables: half a file is not what somebody meant. */
export type Pasted =
  | { problems: readonly string[]; variables?: never }
  | { problems?: never; variables: PastedVariable[] }

/** Reads a pasted `.env`. No string of the result keeps the text in memory. */
export function readPasted(text: string): Pasted {
  const size = new TextEncoder().encode(text).length
  if (size > BYTES_MAX) return { problems: [`This text has ${bytes(size)}: expected ${bytes(BYTES_MAX)} at most`] }
  const found = new Map<string, PastedVariable>()
  try {
    for (const { key, value } of readDotenv(text)) {
      const before = found.get(key)
      found.set(key, { key, value, times: (before?.times ?? 0) + 1 })
    }
  } catch (error) {
    if (error instanceof DotenvError) return { problems: [error.message] }
    throw error
  }
  if (found.size > NAMES_MAX)
    return { problems: [`This text has ${number(found.size)} names: expected ${number(NAMES_MAX)} at most`] }
  const problems = [...found.values()].flatMap(
    ({ key, value }) => problemOfKey(key) ?? problemOfValue(key, value) ?? [],
  )
  if (problems.length > 0) return { problems }
  return {
    variables: [...found.values()].map(({ key, value, times }) => ({ key: copyOf(key), value: copyOf(value), times })),
  }
}

/** What becomes of a pasted variable in its layer. */
export interface Difference {
  kind: 'new' | 'changed' | 'unchanged'
  /** The one of this name in the layer itself. */
  known: EnvironmentVariable | undefined
  /** Without one in the layer: what wider layers give. */
  wider: EnvironmentVariable | undefined
}

/**
 * Compares a pasted variable with what there is. What a wider layer gives already with this value is unchanged and need not be written, as in
 * `platform env push`. So is one that differs in its line ends alone, which a field does not keep. A sensitive value cannot be compared, so it
 * counts as changed.
 */
export function differenceOf(
  { key, value, isSensitive }: { key: string; value: string; isSensitive: boolean },
  variables: readonly EnvironmentVariable[],
  layer: Layer,
): Difference {
  const same = variables.filter((each) => each.key === key)
  const winner = mergeLayers(same, layer)[0]?.winner
  const known = winner && layerOf(winner) === layer ? winner : undefined
  const isEqual =
    winner !== undefined && !isSensitive && !winner.sensitive && inField(winner.value ?? '') === inField(value)
  return {
    kind: isEqual ? 'unchanged' : known ? 'changed' : 'new',
    known,
    wider: known ? undefined : winner,
  }
}
