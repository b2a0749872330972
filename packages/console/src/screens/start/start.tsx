import { type ApplicationOverview, createApplication, getOverview } from '@platform/sdk'
import { Plus } from 'lucide-preact'
import { useLocation } from 'preact-iso'
import { didAs, useLine } from '../../command/terminal.ts'
import { Button, buttonClass } from '../../parts/button.tsx'
import { Copy } from '../../parts/copy.tsx'
import { Page } from '../../parts/page.tsx'
import { Loaded, Panel } from '../../parts/panel.tsx'
import { Sparkline } from '../../parts/sparkline.tsx'
import { Standing } from '../../parts/standing.tsx'
import { When } from '../../parts/when.tsx'
import { useApi, useChange } from '../../platform/api.ts'
import { pathOf } from '../../platform/places.ts'
import { useAddress } from '../../platform/query.ts'
import { useOrganization } from '../../platform/surroundings.ts'
import { counted, standingOf } from '../../words.ts'
import { InOrganization } from '../place.tsx'
import { NameForm } from './name-form.tsx'

/** Nothing tells this page of changes, so it asks. */
const EVERY_MS = 15_000

export default function Start({ organization }: { organization: string }) {
  return (
    <InOrganization slug={organization}>
      <Applications key={organization} />
    </InOrganization>
  )
}

function Applications() {
  const organization = useOrganization()
  const { query, route } = useLocation()
  const { cursor } = query
  const isCreating = 'new' in query
  const address = useAddress()
  useLine({ words: ['apps', 'ls', '--org', organization.slug] })
  const overview = useApi(
    ['overview', organization.id, cursor],
    (platform, options) =>
      getOverview(platform, { id: organization.id, ...(cursor !== undefined && { cursor }) }, options),
    { everyMs: EVERY_MS },
  )
  const isEmpty = overview.data?.total === 0
  return (
    <Page
      title={organization.name}
      action={
        !isEmpty &&
        !isCreating && (
          <Button kind="main" onClick={() => route(address({ new: '' }))}>
            <Plus size={16} strokeWidth={1.5} aria-hidden="true" /> New application
          </Button>
        )
      }
    >
      {(isCreating || isEmpty) && <NewApplication isFirst={isEmpty} />}
      {!isEmpty && (
        <Panel title="Applications" at={overview.dataUpdatedAt}>
          <Loaded answer={overview} rows={5}>
            {({ items, total, nextCursor }) => (
              <>
                <OverviewTable items={items} organization={organization.slug} />
                <div class="mt-3 flex flex-wrap items-center gap-4 text-note text-soft">
                  {counted(total, 'application')}
                  {cursor !== undefined && (
                    <a href={address({ cursor: undefined })} class={buttonClass('quiet')}>
                      Back to the newest
                    </a>
                  )}
                  {nextCursor !== null && (
                    <a href={address({ cursor: nextCursor })} class={buttonClass('quiet')}>
                      Older ones
                    </a>
                  )}
                </div>
              </>
            )}
          </Loaded>
        </Panel>
      )}
    </Page>
  )
}

function OverviewTable({ items, organization }: { items: readonly ApplicationOverview[]; organization: string }) {
  return (
    <table class="rows">
      <thead>
        <tr>
          <th scope="col">Application</th>
          <th scope="col">Live since</th>
          <th scope="col">Last deployment</th>
          <th scope="col">Requests, 24 h</th>
        </tr>
      </thead>
      <tbody>
        {items.map((item) => (
          <OverviewRow key={item.applicationId} item={item} organization={organization} />
        ))}
      </tbody>
    </table>
  )
}

function OverviewRow({ item, organization }: { item: ApplicationOverview; organization: string }) {
  const { name, slug, url, current, lastDeployment, hours } = item
  const sum = (member: 'requests' | 'errors'): number => hours.reduce((all, hour) => all + hour[member], 0)
  const [requests, errors] = [sum('requests'), sum('errors')]
  return (
    <tr>
      <td class="max-sm:basis-full">
        <a href={pathOf(organization, slug)} class="inline-block py-0.5 font-medium break-words hover:underline">
          {name}
        </a>
        <p class="flex items-center gap-1 text-soft">
          {url === null ? (
            'Nothing is deployed yet'
          ) : (
            <>
              <a href={url} target="_blank" rel="noreferrer" class="break-all hover:underline">
                {new URL(url).host}
              </a>
              <Copy text={url} what="the address" />
            </>
          )}
        </p>
      </td>
      <td data-label={current ? 'Live since' : undefined}>
        {current ? <When at={current.createdAt} /> : <span class="text-soft">Nothing live</span>}
      </td>
      <td data-label={lastDeployment ? 'Last' : undefined}>
        {lastDeployment && (
          <a
            href={pathOf(organization, slug, 'deployments', lastDeployment.deploymentId)}
            class="inline-flex flex-wrap items-center gap-x-2 hover:underline"
          >
            <Standing
              name={standingOf({
                ...lastDeployment,
                isCurrent: lastDeployment.deploymentId === current?.deploymentId,
              })}
            />
            <When at={lastDeployment.createdAt} />
          </a>
        )}
      </td>
      <td class="max-sm:basis-full">
        <div class="flex flex-wrap items-center gap-3">
          <Sparkline hours={hours} />
          <span>
            {counted(requests, 'request')}
            {errors > 0 && <span class="block text-bad">{counted(errors, 'error')}</span>}
          </span>
        </div>
      </td>
    </tr>
  )
}

function NewApplication({ isFirst }: { isFirst: boolean }) {
  const organization = useOrganization()
  const { route } = useLocation()
  const creation = useChange(
    (platform, name: string) => createApplication(platform, { body: { name, organizationId: organization.id } }),
    {
      stale: [
        ['applications', organization.id],
        ['overview', organization.id],
      ],
      onDone: ({ slug }, name) => {
        didAs({ words: ['apps', 'create', '--org', organization.slug], names: [name] })
        route(pathOf(organization.slug, slug))
      },
    },
  )
  return (
    <Panel title={isFirst ? 'Your first application' : 'A new application'}>
      <NameForm
        label="Name of the application"
        hint="It gets an address, deployments, variables and storage of its own."
        verb="Create application"
        isBusy={creation.isPending}
        error={creation.error}
        onName={(name) => creation.mutate(name)}
      />
    </Panel>
  )
}
