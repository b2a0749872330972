import type { Deployment } from '@platform/sdk'
import { Empty } from '../../parts/notice.tsx'
import { Loaded } from '../../parts/panel.tsx'
import { useApi } from '../../platform/api.ts'
import { useApplication } from '../../platform/surroundings.ts'
import { listDeployments } from '@platform/sdk'
import { ofApplication } from '../../platform/deployments.ts'
import { bytes, nameOf } from '../../words.ts'

const sources = { organization: 'Organization', application: 'Application', environment: 'Environment' } as const

type Variable = NonNullable<Deployment['variables']>[number]
type Change = 'same' | 'added' | 'changed' | 'removed'

const changes: Record<Change, { word: string; tone: string }> = {
  same: { word: 'As before', tone: 'text-soft' },
  added: { word: 'Added', tone: 'text-ok' },
  changed: { word: 'Changed', tone: 'text-warn' },
  removed: { word: 'Removed', tone: 'text-bad' },
}

/** Each variable of either, and what became of it. A digest tells equal values from others, and no value. */
function compare(now: readonly Variable[], before: readonly Variable[] | undefined): (Variable & { change: Change })[] {
  const old = new Map(before?.map((variable) => [variable.key, variable]))
  const rows = now.map((variable) => {
    const known = old.get(variable.key)
    old.delete(variable.key)
    const change: Change = !before || known?.digest === variable.digest ? 'same' : known ? 'changed' : 'added'
    return { ...variable, change }
  })
  const removed = [...old.values()].map((variable) => ({ ...variable, change: 'removed' as const }))
  return [...rows, ...removed].sort((one, other) => (one.key < other.key ? -1 : 1))
}

/** The variables that it was provisioned with, and its size, beside those of the one before in its environment. */
export default function Variables({ deployment }: { deployment: Deployment }) {
  const { application } = useApplication()
  const { id, environment, variables, sizeBytes } = deployment
  const before = useApi([...ofApplication(application.id), 'before', id], (platform, options) =>
    listDeployments(
      platform,
      { applicationId: application.id, environment, status: 'ACTIVE', from: id, limit: 1 },
      options,
    ),
  )
  if (variables === null) return <Empty>It has not been provisioned, so it has no variables.</Empty>
  return (
    <Loaded answer={before} rows={5}>
      {({ items: [last] }) => (
        <div class="flex flex-col gap-4">
          <p class="text-soft">
            {last ? (
              <>
                Compared with <bdi>{nameOf(last)}</bdi>, which was active before it.
              </>
            ) : (
              'Nothing was active before it.'
            )}
            {sizeBytes !== null && ` Its files have ${bytes(sizeBytes)}`}
            {sizeBytes !== null && last?.sizeBytes != null && `, those before had ${bytes(last.sizeBytes)}`}
            {sizeBytes !== null && '.'}
          </p>
          {variables.length === 0 && !last?.variables?.length ? (
            <Empty>It was deployed without variables.</Empty>
          ) : (
            <table class="rows">
              <thead>
                <tr>
                  <th scope="col">Name</th>
                  <th scope="col">From</th>
                  <th scope="col">Value</th>
                </tr>
              </thead>
              <tbody>
                {compare(variables, last?.variables ?? undefined).map(({ key, source, change }) => (
                  <tr key={key}>
                    <td class="font-mono text-note break-all max-sm:basis-full">{key}</td>
                    <td>{sources[source]}</td>
                    <td class={changes[change].tone}>{changes[change].word}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </div>
      )}
    </Loaded>
  )
}
