import { getHostnameAvailability, setHostname } from '@platform/sdk'
import { useState } from 'preact/hooks'
import { appWords, didAs } from '../../command/terminal.ts'
import { Button } from '../../parts/button.tsx'
import { Field, isAtField, problemOf } from '../../parts/field.tsx'
import { Failure, Wrong } from '../../parts/notice.tsx'
import { tell } from '../../parts/toast.tsx'
import { useConfig } from '../../config.ts'
import { useApi, useChange } from '../../platform/api.ts'
import { ofApplication } from '../../platform/deployments.ts'
import { useAdminObstacle } from '../../platform/places.ts'
import { useApplication } from '../../platform/surroundings.ts'

/** The address that production answers at. label: the present one. */
export function HostnameForm({ label }: { label: string | null }) {
  const [isOpen, open] = useState(false)
  const domain = `.${new URL(useConfig().appsUrl).host}`
  return isOpen ? (
    <LabelForm label={label} domain={domain} onClose={() => open(false)} />
  ) : (
    <div class="flex flex-wrap items-center gap-3">
      <span class="break-all">
        {label === null ? (
          <span class="text-soft">Each deployment has its own address alone.</span>
        ) : (
          `${label}${domain}`
        )}
      </span>
      <Button onClick={() => open(true)}>{label === null ? 'Choose a hostname' : 'Change'}</Button>
    </div>
  )
}

function LabelForm({ label, domain, onClose }: { label: string | null; domain: string; onClose: () => void }) {
  const { organization, application } = useApplication()
  const obstacle = useAdminObstacle(organization.id)
  const [text, setText] = useState(label ?? application.slug)
  const isChanged = text !== '' && text !== label
  const availability = useApi(
    ['availability', application.id, text],
    (platform, options) => getHostnameAvailability(platform, { id: application.id, label: text }, options),
    { isEnabled: isChanged },
  )
  const change = useChange(
    (platform, wanted: string) => setHostname(platform, { id: application.id, body: { label: wanted } }),
    {
      stale: [ofApplication(application.id)],
      onDone: ({ hostname }, wanted) => {
        didAs({ words: ['hostname', 'set', wanted, ...appWords(application)] })
        onClose()
        tell(`Production answers at ${hostname}`)
      },
    },
  )
  const taken = availability.data?.available === false ? (availability.data.reason ?? 'It is taken') : undefined
  const reason = obstacle ?? (change.isPending ? 'Under way' : undefined)
  const problem = problemOf(change.error, '/label') ?? problemOf(availability.error, '/label') ?? taken
  return (
    <form
      class="flex flex-col items-start gap-4"
      noValidate
      onSubmit={(event) => {
        event.preventDefault()
        if (reason === undefined && isChanged && problem === undefined) change.mutate(text)
      }}
    >
      {obstacle !== undefined && <Wrong>{obstacle}</Wrong>}
      {change.error && !isAtField(change.error, ['/label']) && <Failure error={change.error} />}
      <div class="w-full">
        <Field
          label="Label"
          autoFocus
          autocomplete="off"
          spellcheck={false}
          hint={
            <>
              Production answers at{' '}
              <span class="break-all">
                {text}
                {domain}
              </span>
              {label !== null && ', and no longer at the present one'}.
            </>
          }
          value={text}
          onText={(typed) => setText(typed.toLowerCase())}
          problem={isChanged ? problem : undefined}
        />
      </div>
      <div class="flex flex-wrap gap-2">
        <Button kind="main" type="submit" reason={reason}>
          Set hostname
        </Button>
        <Button kind="plain" onClick={onClose}>
          Keep as it is
        </Button>
      </div>
    </form>
  )
}
