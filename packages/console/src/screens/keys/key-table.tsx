import { type ApiKey, deleteApiKey, type Member } from '@platform/sdk'
import { useRef, useState } from 'preact/hooks'
import { didAs } from '../../command/terminal.ts'
import { Button } from '../../parts/button.tsx'
import { Id } from '../../parts/copy.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { Field } from '../../parts/field.tsx'
import { Failure } from '../../parts/notice.tsx'
import { tell } from '../../parts/toast.tsx'
import { useChange } from '../../platform/api.ts'
import { now } from '../../platform/now.ts'
import { callMember, usePerson } from '../../platform/places.ts'
import { isWaiting } from '../../session/session.ts'
import { SignInAgain, useStepUp } from '../../session/step-up.tsx'
import { dateTime, until, utc } from '../../words.ts'
import { isInUse, lastUse } from './ends.ts'
import { useHeadingAfter } from './heading-after.ts'
import { keysOf } from './key-list.ts'
import { tellScopes } from './scopes.ts'
import { isTyped } from './typed-name.ts'

/** obstacle: why no key can be deleted here. */
export function KeyTable({
  items,
  members,
  obstacle,
}: {
  items: readonly ApiKey[]
  members: readonly Member[] | undefined
  obstacle: string | undefined
}) {
  // One whose deletion waited for a sign-in is asked about again.
  const [deleted, setDeleted] = useState(() => items.find(({ id }) => isWaiting(formNameOf(id)))?.id)
  const key = items.find(({ id }) => id === deleted)
  return (
    <>
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Key</th>
            <th scope="col">Allows</th>
            <th scope="col">Ends</th>
            <th scope="col">Last used</th>
            <th scope="col">Made by</th>
            <th scope="col">
              <span class="sr-only">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {items.map((each) => (
            <tr key={each.id}>
              <td class="max-w-[20rem] max-sm:basis-full">
                <p class="font-medium break-words">
                  <bdi>{each.name}</bdi>
                </p>
                <Id id={each.id} what={`the key id of ${each.name}`} />
              </td>
              <td class="max-sm:basis-full">
                <Scopes scopes={each.scopes} />
              </td>
              <td data-label={hasEnded(each) ? undefined : 'Ends'}>
                <End expiresAt={each.expiresAt} />
              </td>
              <td data-label="Last used" class="whitespace-nowrap">
                {lastUse(each.lastUsedAt, now.value)}
              </td>
              <td data-label="Made by" class="break-words">
                <Maker userId={each.createdByUserId} members={members} />
              </td>
              <td class="max-sm:basis-full">
                <div class="flex sm:justify-end">
                  <Button reason={obstacle} onClick={() => setDeleted(each.id)}>
                    Delete <span class="sr-only">{each.name}</span>
                  </Button>
                </div>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {key && <DeleteKey apiKey={key} onClose={() => setDeleted(undefined)} />}
    </>
  )
}

const formNameOf = (id: string): string => `delete-api-key ${id}`

function Scopes({ scopes }: { scopes: readonly string[] }) {
  return (
    <details>
      <summary>
        {tellScopes(scopes)
          .map(({ group }) => group)
          .join(', ')}
      </summary>
      <dl class="mt-1 flex flex-col gap-1">
        {tellScopes(scopes).map(({ group, allows }) => (
          <div key={group}>
            <dt class="text-note text-soft">{group}</dt>
            {allows.map((sentence) => (
              <dd key={sentence} class="break-words">
                {sentence}
              </dd>
            ))}
          </div>
        ))}
      </dl>
    </details>
  )
}

const hasEnded = ({ expiresAt }: Pick<ApiKey, 'expiresAt'>): boolean =>
  expiresAt !== null && Date.parse(expiresAt) <= now.value

function End({ expiresAt }: { expiresAt: string | null }) {
  if (expiresAt === null) return <>never</>
  const date = new Date(expiresAt)
  const isOver = hasEnded({ expiresAt })
  return (
    <time dateTime={expiresAt} title={`${dateTime(date)} · ${utc(date)}`} class={isOver ? 'text-bad' : ''}>
      {isOver ? `ended ${dateTime(date)}` : until(date, now.value)}
    </time>
  )
}

function Maker({ userId, members }: { userId: string; members: readonly Member[] | undefined }) {
  const person = usePerson().data
  const member = members?.find((each) => each.userId === userId)
  if (person?.sub === userId) return <>you</>
  if (member) return <bdi>{callMember(member)}</bdi>
  return <span class="text-soft">{members ? 'no longer a member' : '–'}</span>
}

/** A question, since nobody can bring a key back; the name is typed where something may still use it. */
function DeleteKey({ apiKey, onClose }: { apiKey: ApiKey; onClose: () => void }) {
  const { id, name, applicationId, lastUsedAt } = apiKey
  const { waited, goTo, attempt } = useStepUp(formNameOf(id))
  const [typed, setTyped] = useState(typeof waited?.['typed'] === 'string' ? waited['typed'] : '')
  const isUsed = isInUse(lastUsedAt, now.value)
  const change = useChange(
    (platform) =>
      attempt({ typed }, async () => {
        await deleteApiKey(platform, { apiKeyId: id })
        didAs({ method: 'DELETE', path: `/api-keys/${id}` })
        tell(`The key ${name} is deleted`)
        onClose()
      }),
    { stale: [keysOf(applicationId)] },
  )
  const { error } = change
  const isSent = useRef(false)
  useHeadingAfter()
  return (
    <Dialog
      title="Delete the API key?"
      verb="Delete key"
      kind="danger"
      isBusy={change.isPending}
      reason={isUsed && !isTyped(typed, name) ? 'Type the name of the key first' : undefined}
      onConfirm={() => {
        // The second click of two comes before the button says that it is under way.
        if (isSent.current) return
        isSent.current = true
        change.mutate(undefined, { onSettled: () => (isSent.current = false) })
      }}
      onClose={onClose}
    >
      {waited && !error && <p role="status">You have signed in again, and nothing has been deleted yet.</p>}
      {error && <Failure error={error} />}
      <SignInAgain error={error} goTo={(maxAgeSeconds) => goTo({ typed }, maxAgeSeconds)} />
      <p>
        Programs that use <bdi class="font-medium">{name}</bdi> are refused within 5 minutes. A deleted key cannot be
        brought back.
      </p>
      {isUsed && (
        <>
          <p>It was last used {lastUse(lastUsedAt, now.value)}.</p>
          <Field
            label="Name of the key"
            autocomplete="off"
            spellcheck={false}
            hint={
              <>
                Type <bdi>{name}</bdi> to delete it.
              </>
            }
            value={typed}
            onText={setTyped}
          />
        </>
      )}
    </Dialog>
  )
}
