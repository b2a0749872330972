import { useEffect, useRef, useState } from 'preact/hooks'
import { didAs } from '../../command/terminal.ts'
import { Button } from '../../parts/button.tsx'
import { Failure, Wrong } from '../../parts/notice.tsx'
import { tell } from '../../parts/toast.tsx'
import { counted } from '../../words.ts'
import { type Layer, layerOf, layerPhrases, type Place } from './layers.ts'
import { pushLine } from './lines.ts'
import { DifferenceTable, type ShownDifference } from './difference-table.tsx'
import { differenceOf, type PastedVariable, readPasted } from './pasted.ts'
import { SecretArea } from './secret-area.tsx'
import { type FormSurroundings, LayerSelect } from './variable-form.tsx'

type Stage =
  | { kind: 'editing' }
  | { kind: 'sending' }
  /** One failed: those before it are saved, those behind it were not sent. */
  | { kind: 'stopped'; key: string; error: Error }

/**
 * Saves what a `.env` says, after showing what would change. What was pasted is in the field, and what it says in `pasted`, and neither in state
 * nor in a property of a component: the browser holds elements that were pressed last, and they hold those. Both are emptied as it is sent,
 * and when the form goes.
 */
export function PasteForm({
  store,
  place,
  layers,
  initialLayer,
  obstacleOf,
  onChanged,
  onClose,
}: FormSurroundings & {
  place: Place
  layers: readonly Layer[]
  initialLayer: Layer
}) {
  const area = useRef<HTMLTextAreaElement>(null)
  /** What is still to be sent, or to be left as it is. */
  const pasted = useRef<PastedVariable[]>([])
  const leaving = useRef(new AbortController())
  useEffect(
    () => () => {
      leaving.current.abort(new Error('The form was closed'))
      pasted.current = []
    },
    [],
  )
  const [layer, setLayer] = useState(initialLayer)
  const [sensitive, setSensitive] = useState<ReadonlySet<string>>(new Set())
  const [problems, setProblems] = useState<readonly string[]>([])
  const [saved, setSaved] = useState<readonly string[]>([])
  const [stage, setStage] = useState<Stage>({ kind: 'editing' })
  // What was pasted is no state: this draws it anew.
  const [, draw] = useState(0)
  const obstacle = obstacleOf(layer)

  const compare = ({ key, value }: PastedVariable) => {
    const isSensitive = sensitive.has(key)
    return { isSensitive, ...differenceOf({ key, value, isSensitive }, store.known(), layer) }
  }
  const differences = pasted.current.map((each): ShownDifference => {
    const { kind, known, wider, isSensitive } = compare(each)
    return {
      key: each.key,
      times: each.times,
      kind,
      isSensitive,
      wasSensitive: known?.sensitive === true,
      wider: wider && layerOf(wider),
    }
  })
  const open = differences.filter(({ kind }) => kind !== 'unchanged')

  function read(): void {
    const result = readPasted(area.current?.value ?? '')
    pasted.current = result.variables ?? []
    setProblems(result.problems ?? [])
    draw((before) => before + 1)
  }

  async function send(): Promise<void> {
    const { signal } = leaving.current
    const done = [...saved]
    for (const key of open.map((each) => each.key)) {
      const next = pasted.current.find((each) => each.key === key)
      if (!next || signal.aborted) return
      const { known, kind, isSensitive } = compare(next)
      if (kind === 'unchanged') continue
      const { value } = next
      try {
        if (known) await store.update(known, { value, ...(isSensitive && { sensitive: true }) }, signal)
        else await store.create(layer, { key, value, sensitive: isSensitive }, signal)
      } catch (failure) {
        if (!signal.aborted) setStage({ kind: 'stopped', key, error: failure as Error })
        return
      }
      pasted.current = pasted.current.filter((each) => each.key !== key)
      done.push(key)
      setSaved([...done])
      onChanged()
    }
    if (signal.aborted) return
    const line = pushLine(place, layer)
    if (line && sensitive.size === 0) didAs(line)
    tell(`${counted(done.length, 'variable')} saved in ${layerPhrases[layer]}`)
    onClose()
  }

  async function begin(): Promise<void> {
    const isAgain = stage.kind === 'stopped'
    setStage({ kind: 'sending' })
    // Somebody else may have created or deleted what the platform refused.
    if (isAgain) await store.reread()
    await send()
  }

  const problem = problems.length > 0 ? 'There is something wrong with the text' : undefined
  const reason =
    obstacle ??
    problem ??
    (stage.kind === 'sending' ? 'Under way' : undefined) ??
    (open.length === 0 ? (pasted.current.length === 0 ? 'Nothing is pasted yet' : 'Nothing would change') : undefined)
  return (
    <form
      class="flex flex-col items-start gap-4"
      noValidate
      onSubmit={(event) => {
        event.preventDefault()
        // By the standard, Enter in a box comes here even while the button cannot be pressed.
        if (reason === undefined) void begin()
      }}
    >
      {obstacle !== undefined && <Wrong>{obstacle}</Wrong>}
      {stage.kind === 'editing' && (
        <div class="flex w-full flex-col gap-4">
          {layers.length > 1 && <LayerSelect layers={layers} value={layer} onLayer={setLayer} />}
          <SecretArea
            area={area}
            label="Content of the .env"
            rows={8}
            autofocus
            problems={problems}
            hint="Nothing is sent until you save. What is not in it stays as it is."
            onInput={read}
          />
        </div>
      )}
      <Progress stage={stage} saved={saved} open={open} />
      {differences.length > 0 && (
        <DifferenceTable
          differences={differences}
          valuesOf={(key) => {
            const one = pasted.current.find((each) => each.key === key)
            const before = one && compare(one)
            return { before: before?.kind === 'changed' ? before.known?.value : undefined, after: one?.value ?? '' }
          }}
          isLocked={stage.kind === 'sending'}
          onSensitive={(keys, isSensitive) =>
            setSensitive((before) => {
              const after = new Set(before)
              for (const key of keys)
                if (isSensitive) after.add(key)
                else after.delete(key)
              return after
            })
          }
        />
      )}
      <div class="flex flex-wrap items-center gap-2">
        <Button kind="main" type="submit" reason={reason}>
          {stage.kind === 'stopped' ? `Go on with ${stage.key}` : `Save ${counted(open.length, 'variable')}`}
        </Button>
        <Button kind="plain" onClick={onClose}>
          {stage.kind === 'editing' ? 'Close' : 'Leave the rest'}
        </Button>
      </div>
    </form>
  )
}

/** What became of each variable: saved, failed, or not sent. */
function Progress({
  stage,
  saved,
  open,
}: {
  stage: Stage
  saved: readonly string[]
  open: readonly ShownDifference[]
}) {
  if (stage.kind === 'editing') return null
  if (stage.kind === 'sending')
    return (
      <p role="status" class="text-soft">
        Saving, {counted(saved.length, 'variable')} so far
      </p>
    )
  const rest = open.filter(({ key }) => key !== stage.key)
  return (
    <div class="flex w-full flex-col gap-3">
      <Failure error={stage.error} />
      <dl class="grid gap-x-4 gap-y-1 sm:grid-cols-[auto_1fr]">
        <Keys title="Saved" keys={saved} />
        <Keys title="Failed" keys={[stage.key]} />
        <Keys title="Not sent" keys={rest.map(({ key }) => key)} />
      </dl>
    </div>
  )
}

function Keys({ title, keys }: { title: string; keys: readonly string[] }) {
  return (
    <>
      <dt class="font-medium">{title}</dt>
      <dd class="break-all">
        {keys.length === 0 ? (
          <span class="text-soft">None</span>
        ) : (
          <span class="font-mono text-table">{keys.join(', ')}</span>
        )}
      </dd>
    </>
  )
}
