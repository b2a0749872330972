import { Plus } from 'lucide-preact'
import { useLocation } from 'preact-iso'
import { useState } from 'preact/hooks'
import { useLine } from '../../command/terminal.ts'
import { Button, buttonClass } from '../../parts/button.tsx'
import { Empty, Wrong } from '../../parts/notice.tsx'
import { Page } from '../../parts/page.tsx'
import { Loaded, Panel } from '../../parts/panel.tsx'
import { useActivityOf } from '../../platform/deployments.ts'
import { leaveBy, useHold } from '../../platform/leaving.ts'
import { callMember, pathOf, useAdminObstacle, useMembers } from '../../platform/places.ts'
import { useApplication } from '../../platform/surroundings.ts'
import { counted } from '../../words.ts'
import { InApplication } from '../place.tsx'
import { useKeys } from './key-list.ts'
import { KeyTable } from './key-table.tsx'
import { LeaveQuestion } from './leave-question.tsx'
import { NewKeyForm } from './new-key-form.tsx'
import { type MadeKey, Secret } from './secret.tsx'

export default function KeysScreen({ organization, application }: { organization: string; application: string }) {
  return (
    <InApplication organization={organization} application={application}>
      <Keys key={`${organization}/${application}`} />
    </InApplication>
  )
}

function Keys() {
  const { organization, application } = useApplication()
  const { query, route } = useLocation()
  const here = `${pathOf(organization.slug, application.slug)}/keys`
  const toNew = `${here}?new`
  const obstacle = useAdminObstacle(organization.id)
  const members = useMembers(organization.id)
  const keys = useKeys(application.id)
  /** With its secret, which nothing else holds. */
  const [made, setMade] = useState<MadeKey | undefined>(undefined)
  const { question } = useHold(made !== undefined)
  useActivityOf(application)
  useLine({ method: 'GET', path: `/api-keys?applicationId=${application.id}` })
  const mayMake = obstacle === undefined && !members.isPending
  const isMaking = 'new' in query && mayMake && made === undefined
  return (
    <Page
      title="API keys"
      action={
        obstacle !== undefined ? (
          <Button kind="main" reason={obstacle}>
            <Plus size={16} strokeWidth={1.5} aria-hidden="true" /> New API key
          </Button>
        ) : (
          made === undefined &&
          !isMaking && (
            <a href={toNew} class={buttonClass('main')}>
              <Plus size={16} strokeWidth={1.5} aria-hidden="true" /> New API key
            </a>
          )
        )
      }
    >
      {obstacle !== undefined && <WhoMay organizationId={organization.id} />}
      {isMaking && <NewKeyForm onMade={setMade} onClose={() => leaveBy(() => route(here))} />}
      {made && (
        <Secret
          made={made}
          onSaved={() => {
            setMade(undefined)
            route(here, true)
          }}
        />
      )}
      {made && question && (
        <LeaveQuestion
          title="Leave without the secret?"
          onLeave={() => {
            setMade(undefined)
            question.leave()
          }}
          onStay={question.stay}
        >
          <p>
            The secret of <bdi>{made.key.name}</bdi> is shown on this page alone, and only now. If you have not saved
            it, the key is of no use: delete it and create another.
          </p>
        </LeaveQuestion>
      )}
      <Panel title={keys.data ? counted(keys.data.items.length, 'key') : 'Keys'} at={keys.dataUpdatedAt}>
        <Loaded answer={keys} rows={5}>
          {({ items }) =>
            items.length === 0 ? (
              <Empty
                action={
                  mayMake &&
                  !isMaking && (
                    <a href={toNew} class={buttonClass('quiet')}>
                      Create an API key
                    </a>
                  )
                }
              >
                No keys yet. A key lets CI, S3 clients and programs of yours use this application, and no other.
              </Empty>
            ) : (
              <KeyTable
                items={items}
                members={members.data?.items}
                obstacle={obstacle ?? (made && 'Save the secret of the new key first.')}
              />
            )
          }
        </Loaded>
      </Panel>
    </Page>
  )
}

/** Those who may, by what they are called in a sentence. */
const mayRoles: Readonly<Record<string, string>> = { OWNER: 'owner', ADMIN: 'administrator' }

/** Whom a member can ask. */
function WhoMay({ organizationId }: { organizationId: string }) {
  const items = useMembers(organizationId).data?.items ?? []
  return (
    <Wrong>
      <p>You are a member of this organization. Its owners and administrators may create and delete API keys:</p>
      <ul class="mt-2 list-disc ps-5">
        {items
          .filter(({ role }) => mayRoles[role] !== undefined)
          .map((member) => (
            <li key={member.userId}>
              <bdi>{callMember(member)}</bdi>
              {member.email !== null && member.email !== callMember(member) && (
                <span class="break-all text-soft"> {member.email}</span>
              )}
              , {mayRoles[member.role]}
            </li>
          ))}
      </ul>
    </Wrong>
  )
}
