import { createApiKey, type CreateApiKeyData, isSecretLost, type PlatformError } from '@platform/sdk'
import { useRef, useState } from 'preact/hooks'
import { didAs } from '../../command/terminal.ts'
import { Button } from '../../parts/button.tsx'
import { Field, isAtField, problemOf } from '../../parts/field.tsx'
import { Failure, Wrong } from '../../parts/notice.tsx'
import { Panel } from '../../parts/panel.tsx'
import { useChange } from '../../platform/api.ts'
import { useHold } from '../../platform/leaving.ts'
import { useApplication } from '../../platform/surroundings.ts'
import type { WaitingForm } from '../../session/session.ts'
import { SignInAgain, useStepUp } from '../../session/step-up.tsx'
import { type End, END_DEFAULT, endNames, ends, expiresAtOf, isEnd } from './ends.ts'
import { useHeadingAfter } from './heading-after.ts'
import { keysOf } from './key-list.ts'
import { LeaveQuestion } from './leave-question.tsx'
import type { MadeKey } from './secret.tsx'
import { inOrder, presets, scopeGroups } from './scopes.ts'
import { holdSecret } from './shown-secret.ts'

const fieldset = 'flex min-w-0 flex-col gap-1'
const choice = 'flex min-h-6 items-start gap-2 py-0.5 pointer-coarse:min-h-11 pointer-coarse:items-center'
const box = 'mt-0.5 size-4 shrink-0 accent-accent pointer-coarse:mt-0 pointer-coarse:size-5'

/** What a person fills in; it holds no secret, since the platform makes that. */
type Wanted = {
  name: string
  scopes: readonly string[]
  end: End
}

/** As it waited while the person proved who they are. */
function wantedOf({ name, scopes, end }: WaitingForm['fields']): Wanted {
  return {
    name: typeof name === 'string' ? name : '',
    scopes: Array.isArray(scopes) ? scopes : [],
    end: isEnd(end) ? end : END_DEFAULT,
  }
}

/** Makes a key, and hands it on with its secret. */
export function NewKeyForm({ onMade, onClose }: { onMade: (made: MadeKey) => void; onClose: () => void }) {
  const { application } = useApplication()
  const { waited, goTo, attempt } = useStepUp(`new-api-key ${application.id}`)
  const [wanted, setWanted] = useState(() => wantedOf(waited ?? {}))
  const { name, scopes, end } = wanted
  const [isTried, setTried] = useState(false)
  const want = (changes: Partial<Wanted>): void => setWanted((before) => ({ ...before, ...changes }))
  const create = useChange(
    async (platform, body: NonNullable<CreateApiKeyData['body']>) => {
      const made = await attempt(wanted, () => createApiKey(platform, { body }))
      if (!made) return
      didAs({ method: 'POST', path: '/api-keys', body })
      // Handed on, and not answered: the cache keeps what a change answers for as long as it likes.
      const { secret, ...key } = made
      onMade({ key, secret: holdSecret(secret) })
    },
    { stale: [keysOf(application.id)] },
  )
  const { error } = create
  const isSent = useRef(false)
  const { question } = useHold(create.isPending)
  useHeadingAfter()
  const missingName = isTried && name.trim() === '' ? 'A name is needed' : undefined
  const missingScopes = isTried && scopes.length === 0 ? 'Choose at least one' : undefined
  return (
    <Panel title="New API key">
      <form
        class="flex flex-col items-start gap-6 rounded-control border border-line bg-surface p-4 sm:p-6"
        noValidate
        onSubmit={(event) => {
          event.preventDefault()
          setTried(true)
          if (name.trim() === '' || scopes.length === 0 || isSent.current) return
          const expiresAt = expiresAtOf(end, Date.now())
          isSent.current = true
          create.mutate(
            { name: name.trim(), applicationId: application.id, scopes: [...scopes], expiresAt },
            { onSettled: () => (isSent.current = false) },
          )
        }}
      >
        {waited && !error && (
          <div role="status" class="rounded-control border-s-4 border-accent bg-accent-tint p-3">
            You have signed in again, and nothing has been created yet. Create the key below.
          </div>
        )}
        {isSecretLost(error) ? (
          <LostSecret error={error} name={name} />
        ) : (
          error && !isAtField(error, ['/name']) && <Failure error={error} />
        )}
        <SignInAgain error={error} goTo={(maxAgeSeconds) => goTo(wanted, maxAgeSeconds)} />
        <div class="w-full">
          <Field
            label="Name"
            hint="What uses it, such as the CI of the shop."
            autocomplete="off"
            value={name}
            onText={(text) => want({ name: text })}
            problem={missingName ?? problemOf(error, '/name')}
          />
        </div>
        <fieldset class={`${fieldset} w-full gap-3`} aria-describedby={missingScopes && 'scopes-problem'}>
          <legend class="mb-1 font-medium">What it may do</legend>
          <div class="flex flex-wrap gap-2">
            {presets.map((preset) => (
              <Button
                key={preset.name}
                aria-pressed={inOrder(preset.scopes).join() === scopes.join()}
                class="aria-pressed:border-accent aria-pressed:bg-accent-tint"
                onClick={() => want({ scopes: inOrder(preset.scopes) })}
              >
                {preset.name}
              </Button>
            ))}
          </div>
          {missingScopes !== undefined && (
            <p id="scopes-problem" role="alert" class="text-bad">
              {missingScopes}
            </p>
          )}
          <div class="grid gap-x-8 gap-y-5 sm:grid-cols-2 xl:grid-cols-3">
            {scopeGroups.map((group) => (
              <fieldset key={group.name} class={fieldset}>
                <legend class="font-medium">{group.name}</legend>
                <p class="mb-1 text-note text-soft">{group.sentence}</p>
                {group.scopes.map(({ scope, allows }) => (
                  <label key={scope} class={choice} title={scope}>
                    <input
                      type="checkbox"
                      class={box}
                      checked={scopes.includes(scope)}
                      onChange={({ currentTarget }) =>
                        want({
                          scopes: currentTarget.checked
                            ? inOrder([...scopes, scope])
                            : scopes.filter((each) => each !== scope),
                        })
                      }
                    />
                    {allows}
                  </label>
                ))}
              </fieldset>
            ))}
          </div>
        </fieldset>
        <fieldset class={fieldset} aria-describedby="ends-hint">
          <legend class="mb-1 font-medium">It ends</legend>
          <div class="flex flex-wrap gap-x-6">
            {endNames.map((each) => (
              <label key={each} class={choice}>
                <input
                  type="radio"
                  name="end"
                  class={box}
                  checked={end === each}
                  onChange={() => want({ end: each })}
                />
                {ends[each]}
              </label>
            ))}
          </div>
          <p id="ends-hint" class="text-note text-soft">
            {end === 'never'
              ? 'It works until somebody deletes it, whoever may have read it by then.'
              : 'Before that, create another, move what uses it, and delete this one.'}
          </p>
        </fieldset>
        <div class="flex flex-wrap gap-2">
          <Button kind="main" type="submit" reason={create.isPending ? 'Under way' : undefined}>
            Create key
          </Button>
          <Button kind="plain" onClick={onClose}>
            Create none
          </Button>
        </div>
      </form>
      {question && (
        <LeaveQuestion title="Leave while the key is being created?" onLeave={question.leave} onStay={question.stay}>
          <p>
            The secret of <bdi>{name.trim()}</bdi> will be shown on this page alone, and only once. If you leave now, a
            key may be there whose secret nobody has.
          </p>
        </LeaveQuestion>
      )}
    </Panel>
  )
}

/** The key may exist, and nobody has its secret. */
function LostSecret({ error, name }: { error: PlatformError; name: string }) {
  const count = error.apiKeyIds?.length
  return (
    <Wrong>
      <div role="alert" class="flex flex-col gap-1">
        <p class="font-medium">The connection was cut, and the secret with it</p>
        <p>
          A key <bdi>{name}</bdi> may have been created, and nobody has its secret. The platform does not show it again.{' '}
          {count === 0
            ? 'No key of this name is there: create it again.'
            : 'Delete the newest key of this name below, unless somebody else has just made it, and create another.'}
        </p>
      </div>
    </Wrong>
  )
}
