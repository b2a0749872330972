import type { EnvironmentVariable } from '@platform/sdk'
import { problemOfKey, problemOfValue } from '@platform/sdk/dotenv'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { Button } from '../../parts/button.tsx'
import { controlClass, Field, isAtField, problemOf } from '../../parts/field.tsx'
import { Failure, Wrong } from '../../parts/notice.tsx'
import { tell } from '../../parts/toast.tsx'
import { type Layer, layerOf, layerPhrases, layerWords } from './layers.ts'
import { inField } from './pasted.ts'
import { SecretArea } from './secret-area.tsx'
import type { VariableStore } from './store.ts'

/** What a form needs of its page. */
export interface FormSurroundings {
  store: VariableStore
  /** Why the person may not change a layer. */
  obstacleOf: (layer: Layer) => string | undefined
  onChanged: () => void
  onClose: () => void
}

/** Creates a variable in one of the layers, or changes one. Its value is in the field alone, which is erased when it goes. */
export function VariableForm({
  store,
  layers,
  obstacleOf,
  variable,
  onChanged,
  onClose,
}: FormSurroundings & { layers: readonly Layer[]; variable?: EnvironmentVariable }) {
  const [key, setKey] = useState(variable?.key ?? '')
  const [layer, setLayer] = useState<Layer>(variable ? layerOf(variable) : (layers[0] ?? 'application'))
  /** As the person saw it: somebody else may make it sensitive meanwhile, and it stays so. */
  const [wasSensitive] = useState(variable?.sensitive ?? false)
  const [isSensitive, setSensitive] = useState(wasSensitive)
  const [problems, setProblems] = useState<{ key?: string | undefined; value?: string | undefined }>({})
  const [error, setError] = useState<Error | null>(null)
  const [isBusy, setBusy] = useState(false)
  const value = useRef<HTMLTextAreaElement>(null)
  const isGone = useRef(false)
  useEffect(() => () => void (isGone.current = true), [])
  const obstacle = obstacleOf(layer)
  const reason = obstacle ?? (isBusy ? 'Under way' : undefined)

  /** What is to be sent; undefined if there is nothing, or something is wrong with it. */
  function checked(): { value?: string; sensitive?: boolean } | undefined {
    const text = value.current?.value ?? ''
    // Nobody can tell whether an empty field means to keep a value that is not shown, or to empty it.
    const missing =
      variable?.sensitive && text === '' ? 'A new value is needed: the present one is never shown' : undefined
    const found = { key: variable ? undefined : problemOfKey(key), value: missing ?? problemOfValue(key, text) }
    setProblems(found)
    if (found.key !== undefined || found.value !== undefined) return undefined
    return {
      ...((!variable || variable.sensitive || text !== inField(variable.value ?? '')) && { value: text }),
      ...((!variable || isSensitive !== wasSensitive) && { sensitive: isSensitive }),
    }
  }

  async function save(): Promise<void> {
    const change = checked()
    if (!change) return
    if (Object.keys(change).length === 0) return onClose()
    setBusy(true)
    setError(null)
    try {
      if (variable) await store.update(variable, change)
      else await store.create(layer, { key, value: change.value ?? '', sensitive: isSensitive })
    } catch (failure) {
      setError(failure as Error)
      if (isGone.current) tell(`${key} is not saved: ${(failure as Error).message}`)
      return
    } finally {
      setBusy(false)
    }
    onChanged()
    tell(`${key} is saved in ${layerPhrases[layer]}`)
    // Somebody who went elsewhere meanwhile stays there.
    if (!isGone.current) onClose()
  }

  return (
    <form
      class="flex flex-col items-start gap-4 text-body"
      noValidate
      onSubmit={(event) => {
        event.preventDefault()
        // Enter in a field comes here even while the button cannot be pressed.
        if (reason === undefined) void save()
      }}
    >
      {obstacle !== undefined && <Wrong>{obstacle}</Wrong>}
      {error && !isAtField(error, ['/key', '/value']) && <Failure error={error} />}
      {!variable && (
        <div class="flex w-full flex-col gap-4">
          <Field
            label="Name"
            autoFocus
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            placeholder="DATABASE_URL"
            value={key}
            onText={(text) => {
              setKey(text.trim())
              setProblems(({ value: kept }) => ({ value: kept }))
            }}
            problem={problems.key ?? problemOf(error, '/key')}
          />
          {layers.length > 1 && <LayerSelect layers={layers} value={layer} onLayer={setLayer} />}
        </div>
      )}
      <div class="w-full">
        <SecretArea
          area={value}
          label={variable ? `Value of ${key}` : 'Value'}
          initial={variable?.value ?? ''}
          rows={3}
          autofocus={variable !== undefined}
          isMasked={isSensitive}
          hint={variable?.sensitive ? 'The present value is never shown. What you type here replaces it.' : undefined}
          problems={[problems.value ?? problemOf(error, '/value')].filter((each) => each !== undefined)}
          onInput={() => problems.value !== undefined && setProblems(({ key: kept }) => ({ key: kept }))}
        />
      </div>
      <SensitiveBox isChecked={isSensitive} onCheck={setSensitive} />
      <div class="flex flex-wrap items-center gap-2">
        <Button kind="main" type="submit" reason={reason}>
          {variable ? 'Save' : 'Save variable'}
        </Button>
        <Button kind="plain" onClick={onClose}>
          {variable ? 'Keep as it is' : 'Close'}
        </Button>
      </div>
    </form>
  )
}

function SensitiveBox({ isChecked, onCheck }: { isChecked: boolean; onCheck: (isSensitive: boolean) => void }) {
  const id = useId()
  return (
    <div class="max-w-[40rem]">
      <label for={id} class="inline-flex min-h-6 items-center gap-2 font-medium pointer-coarse:min-h-11">
        <input
          id={id}
          type="checkbox"
          class="size-4 accent-accent"
          checked={isChecked}
          aria-describedby={`${id}-hint`}
          onChange={({ currentTarget }) => onCheck(currentTarget.checked)}
        />
        Sensitive
      </label>
      <p id={`${id}-hint`} class="text-note text-soft">
        Deployments get it, and nobody can read it again: not here, not by the API. Only a new value makes it readable.
      </p>
    </div>
  )
}

const layerHints: Record<Layer, string> = {
  organization: 'Every application of the organization gets it, unless the application has one of this name.',
  application: 'Deployments in production and in preview get it.',
  production: 'Only deployments in production get it.',
  preview: 'Only deployments in preview get it.',
}

export function LayerSelect({
  layers,
  value,
  onLayer,
}: {
  layers: readonly Layer[]
  value: Layer
  onLayer: (layer: Layer) => void
}) {
  const id = useId()
  return (
    <div class="flex max-w-[30rem] flex-col items-start gap-1">
      <label for={id} class="font-medium">
        Layer
      </label>
      <select
        id={id}
        class={controlClass}
        value={value}
        aria-describedby={`${id}-hint`}
        onChange={({ currentTarget }) => onLayer(currentTarget.value as Layer)}
      >
        {layers.map((layer) => (
          <option key={layer} value={layer}>
            {layerWords[layer]}
          </option>
        ))}
      </select>
      <p id={`${id}-hint`} class="text-note text-soft">
        {layerHints[value]}
      </p>
    </div>
  )
}
