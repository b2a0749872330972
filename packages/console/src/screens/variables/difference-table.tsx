import { Eye, EyeOff } from 'lucide-preact'
import { useState } from 'preact/hooks'
import { Button } from '../../parts/button.tsx'
import { counted, number } from '../../words.ts'
import { type Layer, layerPhrases } from './layers.ts'
import type { Difference } from './pasted.ts'

/** What saving would do to a variable. It holds no value: whatever holds the table would hold it. */
export interface ShownDifference {
  key: string
  /** How often the text has it. */
  times: number
  kind: Difference['kind']
  isSensitive: boolean
  /** Whether the one that is there is sensitive. */
  wasSensitive: boolean
  /** Whence it comes without one in the layer. */
  wider: Layer | undefined
}

/** before: what the layer has, null if that is sensitive. */
type ValuesOf = (key: string) => { before: string | null | undefined; after: string }

const kinds: Record<Difference['kind'], { word: string; tone: string }> = {
  new: { word: 'New', tone: 'text-ok' },
  changed: { word: 'Changed', tone: 'text-warn' },
  unchanged: { word: 'Unchanged', tone: 'text-soft' },
}

/** Thousands of rows at once would stop the page. */
const ROWS_SHOWN = 100

/** What saving would do to each variable. Values are covered until somebody asks for them. */
export function DifferenceTable({
  differences,
  valuesOf,
  isLocked,
  onSensitive,
}: {
  differences: readonly ShownDifference[]
  valuesOf: ValuesOf
  /** Whether it is too late to mark one as sensitive. */
  isLocked: boolean
  onSensitive: (keys: readonly string[], isSensitive: boolean) => void
}) {
  const [isShown, show] = useState(false)
  const [from, setFrom] = useState(0)
  // They become fewer as they are saved.
  const first = from < differences.length ? from : 0
  const shown = differences.slice(first, first + ROWS_SHOWN)
  const count = (kind: Difference['kind']): number => differences.filter((each) => each.kind === kind).length
  const Icon = isShown ? EyeOff : Eye
  const areAll = differences.every(({ isSensitive }) => isSensitive)
  return (
    <div class="w-full">
      <div class="mb-1 flex flex-wrap items-center justify-between gap-2">
        <p role="status" class="font-medium">
          {count('new')} new, {count('changed')} changed, {count('unchanged')} unchanged
        </p>
        <div class="flex flex-wrap gap-2">
          <Button
            kind="plain"
            reason={isLocked ? 'Under way' : undefined}
            onClick={() =>
              onSensitive(
                differences.map(({ key }) => key),
                !areAll,
              )
            }
          >
            {areAll ? 'Mark none as sensitive' : 'Mark all as sensitive'}
          </Button>
          <Button kind="plain" onClick={() => show(!isShown)}>
            <Icon size={16} strokeWidth={1.5} aria-hidden="true" /> {isShown ? 'Cover values' : 'Show values'}
          </Button>
        </div>
      </div>
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Change</th>
            <th scope="col">Value</th>
            <th scope="col">Sensitive</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((difference) => (
            <DifferenceRow
              key={difference.key}
              difference={difference}
              valuesOf={valuesOf}
              isShown={isShown}
              isLocked={isLocked}
              onSensitive={(isSensitive) => onSensitive([difference.key], isSensitive)}
            />
          ))}
        </tbody>
      </table>
      {shown.length < differences.length && (
        <div class="mt-2 flex flex-wrap items-center gap-2">
          <p class="grow text-soft">
            {number(first + 1)} to {number(first + shown.length)} of {counted(differences.length, 'name')}. Saving
            includes those that are not shown.
          </p>
          <Button reason={first === 0 ? 'These are the first' : undefined} onClick={() => setFrom(first - ROWS_SHOWN)}>
            Names before
          </Button>
          <Button
            reason={first + ROWS_SHOWN >= differences.length ? 'These are the last' : undefined}
            onClick={() => setFrom(first + ROWS_SHOWN)}
          >
            Names after
          </Button>
        </div>
      )}
    </div>
  )
}

function DifferenceRow({
  difference,
  valuesOf,
  isShown,
  isLocked,
  onSensitive,
}: {
  difference: ShownDifference
  valuesOf: ValuesOf
  isShown: boolean
  isLocked: boolean
  onSensitive: (isSensitive: boolean) => void
}) {
  const { key, kind, times, isSensitive, wasSensitive } = difference
  const { word, tone } = kinds[kind]
  const note = noteOf(difference)
  return (
    <tr>
      <td class="max-w-[20rem] max-sm:basis-full">
        <span class="font-mono break-all">{key}</span>
        {times > 1 && <p class="text-soft">{counted(times, 'time')} in the text: the last one counts</p>}
      </td>
      <td>
        <span class={tone}>{word}</span>
        {note !== undefined && <p class="text-soft">{note}</p>}
      </td>
      <td class="max-w-[24rem] max-sm:basis-full">
        {isShown ? (
          <Values {...valuesOf(key)} />
        ) : (
          <span class="tracking-widest text-soft" aria-label="Covered">
            ••••••••
          </span>
        )}
      </td>
      <td>
        <label class="inline-flex min-h-6 min-w-6 items-center gap-2 pointer-coarse:min-h-11">
          <input
            type="checkbox"
            class="size-4 accent-accent"
            checked={isSensitive || wasSensitive}
            disabled={isLocked || wasSensitive}
            onChange={({ currentTarget }) => onSensitive(currentTarget.checked)}
          />
          <span class="sm:sr-only">
            Sensitive<span class="sr-only">: {key}</span>
          </span>
        </label>
      </td>
    </tr>
  )
}

function noteOf({ kind, wasSensitive, wider }: ShownDifference): string | undefined {
  if (wasSensitive) return 'Sensitive: nobody can tell whether it is the same'
  if (!wider) return undefined
  return kind === 'unchanged'
    ? `It comes from ${layerPhrases[wider]} already`
    : `Hides the one of ${layerPhrases[wider]}`
}

function Values({ before, after }: ReturnType<ValuesOf>) {
  return (
    <>
      {before != null && before !== after && <Text value={before} isOld />}
      <Text value={after} />
    </>
  )
}

function Text({ value, isOld = false }: { value: string; isOld?: boolean }) {
  const words = value === '' ? '(empty)' : value
  return isOld ? (
    <del class="block max-h-40 overflow-y-auto font-mono break-all whitespace-pre-wrap text-soft">{words}</del>
  ) : (
    <span class="block max-h-40 overflow-y-auto font-mono break-all whitespace-pre-wrap">{words}</span>
  )
}
