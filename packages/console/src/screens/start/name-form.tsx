import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { Button } from '../../parts/button.tsx'
import { Field, isAtField, problemOf } from '../../parts/field.tsx'
import { Failure } from '../../parts/notice.tsx'

/** Names something new; its address is derived from the name. */
export function NameForm({
  label,
  hint,
  verb,
  isBusy,
  error,
  onName,
}: {
  label: string
  hint: ComponentChildren
  verb: string
  isBusy: boolean
  error: Error | null
  onName: (name: string) => void
}) {
  const [name, setName] = useState('')
  const [isTried, setTried] = useState(false)
  const missing = isTried && name.trim() === '' ? 'A name is needed' : undefined
  return (
    <form
      class="flex flex-col items-start gap-4"
      noValidate
      onSubmit={(event) => {
        event.preventDefault()
        setTried(true)
        if (name.trim() !== '' && !isBusy) onName(name.trim())
      }}
    >
      {error && !isAtField(error, ['/name', '/slug']) && <Failure error={error} />}
      <div class="w-full">
        <Field
          label={label}
          hint={hint}
          value={name}
          onText={setName}
          autocomplete="off"
          problem={missing ?? problemOf(error, '/name') ?? problemOf(error, '/slug')}
        />
      </div>
      <Button kind="main" type="submit" reason={isBusy ? 'Under way' : undefined}>
        {verb}
      </Button>
    </form>
  )
}
