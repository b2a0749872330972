import type { EnvironmentVariable } from '@platform/sdk'
import { CornerDownRight, Eye, EyeOff, Lock } from 'lucide-preact'
import { useId, useRef, useState } from 'preact/hooks'
import { Button } from '../../parts/button.tsx'
import { Copy } from '../../parts/copy.tsx'
import { Failure } from '../../parts/notice.tsx'
import { DeleteButton, nameIn, type TableSurroundings } from './delete-button.tsx'
import { useDeparture } from './departure.ts'
import { layerOf, layerPhrases, layerWords, type MergedVariable } from './layers.ts'
import { VariableForm } from './variable-form.tsx'

/** Variables by name: the one that counts, and below it those that it hides. isOneLayer: whence they come is said elsewhere. */
export function VariableTable({
  merged,
  isOneLayer = false,
  ...rest
}: TableSurroundings & { merged: readonly MergedVariable[]; isOneLayer?: boolean }) {
  return (
    <table class="rows">
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Value</th>
          {!isOneLayer && <th scope="col">Layer</th>}
          <th scope="col">
            <span class="sr-only">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {merged.flatMap(({ winner, hidden }) =>
          [winner, ...hidden].map((variable, depth) => (
            <VariableRow
              key={variable.id}
              variable={variable}
              hiddenBy={depth > 0 ? winner : undefined}
              isOneLayer={isOneLayer}
              {...rest}
            />
          )),
        )}
      </tbody>
    </table>
  )
}

function VariableRow({
  variable,
  hiddenBy,
  isOneLayer,
  ...rest
}: TableSurroundings & {
  variable: EnvironmentVariable
  hiddenBy: EnvironmentVariable | undefined
  isOneLayer: boolean
}) {
  const [isEditing, edit] = useState(false)
  const editId = useId()
  const [error, setError] = useState<Error>()
  const { id, key } = variable
  const layer = layerOf(variable)
  const row = useRef<HTMLTableRowElement>(null)
  useDeparture({ id, key, isEditing, row, store: rest.store })
  return (
    <>
      <tr ref={row} class={hiddenBy ? 'max-sm:border-0 max-sm:pt-0 [&>td]:border-0 sm:[&>td]:pt-0' : ''}>
        <td class="max-w-[24rem] max-sm:grow max-sm:basis-1/2">
          {hiddenBy ? (
            <span class="inline-flex min-h-8 items-center gap-1.5 text-soft">
              <CornerDownRight size={16} strokeWidth={1.5} class="ms-1 shrink-0" aria-hidden="true" />
              <span>
                <span class="sr-only">{key} </span>Hidden by {layerPhrases[layerOf(hiddenBy)]}
              </span>
            </span>
          ) : (
            <span class="inline-flex min-h-8 items-center font-mono font-medium break-all">{key}</span>
          )}
        </td>
        <td class="max-w-[28rem] max-sm:order-1 max-sm:grow max-sm:basis-[55%]">
          <Value variable={variable} isHidden={hiddenBy !== undefined} />
        </td>
        {!isOneLayer && (
          <td class={hiddenBy ? 'text-soft' : ''} data-label="Layer">
            <span class="inline-flex min-h-8 items-center">{layerWords[layer]}</span>
          </td>
        )}
        <td class="max-sm:order-1">
          <div class="-me-3 flex flex-wrap gap-1 sm:me-0 sm:flex-nowrap sm:justify-end">
            <Button
              kind="plain"
              id={editId}
              aria-expanded={isEditing}
              reason={rest.obstacleOf(layer)}
              onClick={() => edit(!isEditing)}
            >
              Edit<span class="sr-only"> {nameIn(variable)}</span>
            </Button>
            <DeleteButton variable={variable} onError={setError} onRemoved={() => edit(false)} {...rest} />
          </div>
        </td>
      </tr>
      {(isEditing || error) && (
        <tr>
          <td colSpan={isOneLayer ? 3 : 4} class="max-sm:basis-full">
            {error && <Failure error={error} />}
            {isEditing && (
              <div class="py-2">
                <VariableForm
                  {...rest}
                  layers={[layer]}
                  variable={variable}
                  onClose={() => {
                    edit(false)
                    setError(undefined)
                    document.getElementById(editId)?.focus()
                  }}
                />
              </div>
            )}
          </td>
        </tr>
      )}
    </>
  )
}

/** A value, covered until somebody asks for it; a sensitive one is never there. */
function Value({ variable, isHidden }: { variable: EnvironmentVariable; isHidden: boolean }) {
  const [isShown, show] = useState(false)
  const { value } = variable
  if (value === null)
    return (
      <span class="inline-flex min-h-8 items-center gap-1.5 text-soft">
        <Lock size={16} strokeWidth={1.5} aria-hidden="true" /> Sensitive, never shown
      </span>
    )
  const Icon = isShown ? EyeOff : Eye
  return (
    <div class="flex items-start gap-1">
      {isShown ? (
        <code
          class={`max-h-60 min-w-0 overflow-y-auto py-1.5 font-mono break-all whitespace-pre-wrap ${isHidden ? 'text-soft line-through' : ''}`}
        >
          {value === '' ? <span class="text-soft">(empty)</span> : value}
        </code>
      ) : (
        <span class="py-1.5 pe-1 tracking-widest text-soft" aria-hidden="true">
          ••••••••
        </span>
      )}
      <span class="inline-flex min-h-8 shrink-0 items-center">
        <button
          type="button"
          class="inline-grid size-6 place-items-center rounded-badge text-soft hover:bg-sunken hover:text-ink pointer-coarse:size-11"
          title={isShown ? 'Cover the value' : 'Show the value'}
          onClick={() => show(!isShown)}
        >
          <Icon size={16} strokeWidth={1.5} aria-hidden="true" />
          <span class="sr-only">
            {isShown ? 'Cover' : 'Show'} the value of {nameIn(variable)}
          </span>
        </button>
        <Copy text={value} what={`the value of ${nameIn(variable)}`} />
      </span>
    </div>
  )
}
