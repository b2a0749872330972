import type { EnvironmentVariable } from '@platform/sdk'
import { useState } from 'preact/hooks'
import { Button } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { tell } from '../../parts/toast.tsx'
import { layerOf, layerPhrases } from './layers.ts'
import type { FormSurroundings } from './variable-form.tsx'

/** What the table of variables needs of its page. */
export type TableSurroundings = Omit<FormSurroundings, 'onClose'>

/** A variable in the name of a button. */
export const nameIn = (variable: EnvironmentVariable): string => `${variable.key} of ${layerPhrases[layerOf(variable)]}`

/** Deletes at once what can be created again, and asks before a value goes that nobody has. */
export function DeleteButton({
  variable,
  store,
  obstacleOf,
  onChanged,
  onError,
  onRemoved,
}: TableSurroundings & {
  variable: EnvironmentVariable
  onError: (error: Error | undefined) => void
  onRemoved: () => void
}) {
  const [isAsking, ask] = useState(false)
  const [isBusy, setBusy] = useState(false)
  const { key, value } = variable
  const layer = layerOf(variable)

  async function undo(lost: string): Promise<void> {
    try {
      await store.create(layer, { key, value: lost, sensitive: false })
      tell(`${key} is there again`)
    } catch (failure) {
      tell(`Not undone: ${(failure as Error).message}`)
    }
  }

  /** close: closes the question, if there was one. */
  async function remove(close?: () => void): Promise<void> {
    setBusy(true)
    onError(undefined)
    try {
      await store.remove(variable)
    } catch (failure) {
      onError(failure as Error)
      return
    } finally {
      setBusy(false)
      close?.()
    }
    onRemoved()
    onChanged()
    tell(
      `${key} is deleted from ${layerPhrases[layer]}`,
      value === null ? undefined : { word: 'Undo', act: () => void undo(value) },
    )
  }

  return (
    <>
      <Button
        kind="plain"
        data-delete
        reason={obstacleOf(layer) ?? (isBusy ? 'Under way' : undefined)}
        onClick={() => (value === null ? ask(true) : void remove())}
      >
        Delete<span class="sr-only"> {nameIn(variable)}</span>
      </Button>
      {isAsking && (
        <Dialog
          title={`Delete ${key}?`}
          verb="Delete variable"
          kind="danger"
          isBusy={isBusy}
          onConfirm={(close) => void remove(close)}
          onClose={() => ask(false)}
        >
          <p>
            The platform never shows its value, so it cannot be put back: whoever wants it again needs the value from
            elsewhere. What is deployed already keeps it.
          </p>
        </Dialog>
      )}
    </>
  )
}
