import { useLocation } from 'preact-iso'
import { useEffect, useState } from 'preact/hooks'
import type { Activity, Deployment } from '@platform/sdk'
import { listHostnames } from '@platform/sdk'
import { ExternalLink, Upload } from 'lucide-preact'
import { useLine } from '../../command/terminal.ts'
import { useConfig } from '../../config.ts'
import { DropZone } from '../../deploy/drop-zone.tsx'
import { sending } from '../../deploy/sending.ts'
import { Button } from '../../parts/button.tsx'
import { Command, Copy } from '../../parts/copy.tsx'
import { Empty } from '../../parts/notice.tsx'
import { Fact, Facts, Page, Unknown } from '../../parts/page.tsx'
import { Loaded, Panel, Skeleton } from '../../parts/panel.tsx'
import { Standing } from '../../parts/standing.tsx'
import { When } from '../../parts/when.tsx'
import { useApi } from '../../platform/api.ts'
import {
  ofApplication,
  useActivity,
  useActivityOf,
  useCurrentDeployment,
  useDeployments,
} from '../../platform/deployments.ts'
import { pathOf } from '../../platform/places.ts'
import { useAddress } from '../../platform/query.ts'
import { useApplication } from '../../platform/surroundings.ts'
import { actorWords, happened, nameOf, standingOf } from '../../words.ts'
import { InApplication } from '../place.tsx'
import { HostnameForm } from './hostname-form.tsx'
import { Traffic } from './traffic.tsx'

export default function ApplicationScreen({
  organization,
  application,
}: {
  organization: string
  application: string
}) {
  return (
    <InApplication organization={organization} application={application}>
      <Overview key={`${organization}/${application}`} />
    </InApplication>
  )
}

function Overview() {
  const { organization, application } = useApplication()
  const { query, route } = useLocation()
  const [isDeploying, deploy] = useState('deploy' in query || sending.value?.applicationId === application.id)
  const address = useAddress()
  const isWanted = 'deploy' in query
  useEffect(() => {
    if (isWanted) deploy(true)
  }, [isWanted])
  const toggle = (): void => {
    deploy(!isDeploying)
    if (isWanted) route(address({ deploy: undefined }), true)
  }
  useActivityOf(application)
  useLine({ method: 'GET', path: `/applications/${application.id}/requests/summary` })
  const newest = useDeployments(application, {})
  const hostnames = useApi([...ofApplication(application.id), 'hostnames'], (platform, options) =>
    listHostnames(platform, { id: application.id }, options),
  )
  const current = useCurrentDeployment(application, newest.data)
  const isEmpty = newest.data?.total === 0
  // What is sent makes the first deployment, and goes on in the same place.
  if (isEmpty && !isDeploying) deploy(true)
  const isInUse = !isEmpty && !newest.isPending
  const home = pathOf(organization.slug, application.slug)
  const own = hostnames.data?.items.find(({ type }) => type === 'APP')
  const url = own?.active === true ? own.url : current.data?.url
  const isCurrentKnown = current.data !== undefined
  return (
    <Page
      title={application.name}
      action={
        newest.data &&
        !isEmpty && (
          <Button kind={isDeploying ? 'quiet' : 'main'} aria-expanded={isDeploying} onClick={toggle}>
            <Upload size={16} strokeWidth={1.5} aria-hidden="true" /> Deploy
          </Button>
        )
      }
      facts={
        <Facts>
          <Fact name="Address">
            {!isCurrentKnown || hostnames.isPending ? (
              <Unknown />
            ) : url === undefined ? (
              <span class="text-soft">None yet</span>
            ) : (
              <span class="inline-flex items-center gap-1">
                <a
                  href={url}
                  target="_blank"
                  rel="noreferrer"
                  class="inline-flex items-center gap-1 break-all text-accent hover:underline"
                >
                  {new URL(url).host}{' '}
                  <ExternalLink size={16} strokeWidth={1.5} aria-label="in a new tab" class="shrink-0" />
                </a>
                <Copy text={url} what="the address" />
              </span>
            )}
          </Fact>
          <Fact name="In production">
            {!isCurrentKnown ? (
              <Unknown />
            ) : current.data ? (
              <CurrentDeployment deployment={current.data} home={home} />
            ) : (
              <span class="text-soft">Nothing is live</span>
            )}
          </Fact>
        </Facts>
      }
    >
      {isDeploying && (
        <Panel title={isEmpty ? 'Deploy something' : 'Deploy another version'}>
          <DropZone />
        </Panel>
      )}
      {newest.isPending && <Skeleton rows={8} />}
      {isInUse && <Traffic />}
      {isInUse && (
        <div class="grid gap-8 lg:grid-cols-2">
          <Panel
            title="Newest deployments"
            at={newest.dataUpdatedAt}
            action={
              <a href={`${home}/deployments`} class="text-accent hover:underline">
                All deployments
              </a>
            }
          >
            <Loaded answer={newest} rows={5}>
              {({ items }) => <Newest items={items.slice(0, 5)} home={home} />}
            </Loaded>
          </Panel>
          <Recent />
        </div>
      )}
      <div class="grid gap-8 lg:grid-cols-2">
        <Panel title="Hostname">
          <Loaded answer={hostnames} rows={2}>
            {({ label }) => <HostnameForm key={label} label={label} />}
          </Loaded>
        </Panel>
        <Panel title="From a terminal">
          <Terminal />
        </Panel>
      </div>
    </Page>
  )
}

function Terminal() {
  const { apiUrl } = useConfig()
  const { organization, application } = useApplication()
  return (
    <div class="flex flex-col gap-2">
      <p class="text-soft">Once, for the command line:</p>
      <Command
        text={`curl -fsSo ~/platform.mjs ${apiUrl}/docs/clients/platform.mjs\nnode ~/platform.mjs login --url ${apiUrl}`}
      />
      <p class="text-soft">In the folder of a project:</p>
      <Command text={`node ~/platform.mjs deploy --app ${organization.slug}/${application.slug}`} />
    </div>
  )
}

function CurrentDeployment({ deployment, home }: { deployment: Deployment; home: string }) {
  return (
    <span class="inline-flex flex-wrap items-center gap-x-2">
      <Standing name="live" />
      <a href={`${home}/deployments/${deployment.id}`} class="break-words hover:underline">
        {nameOf(deployment)}
      </a>
      <span class="text-soft">
        <When at={deployment.createdAt} />
      </span>
    </span>
  )
}

function Newest({ items, home }: { items: readonly Deployment[]; home: string }) {
  return (
    <ul>
      {items.map((deployment) => (
        <li
          key={deployment.id}
          class="flex min-h-9 flex-wrap items-center gap-x-3 border-t border-line py-1 text-table first:border-0"
        >
          <a href={`${home}/deployments/${deployment.id}`} class="min-w-0 grow truncate hover:underline">
            {nameOf(deployment)}
          </a>
          <Standing name={standingOf(deployment)} />
          <span class="text-soft">
            <When at={deployment.createdAt} />
          </span>
        </li>
      ))}
    </ul>
  )
}

function Recent() {
  const { application } = useApplication()
  const activity = useActivity(application)
  return (
    <Panel title="Activity" at={activity.dataUpdatedAt}>
      <Loaded answer={activity} rows={5}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty>Nothing happened in the last 30 days. Deployments, variables, hostnames and keys appear here.</Empty>
          ) : (
            <ul>
              {items.slice(0, 8).map((item) => (
                <ActivityRow key={item.id} item={item} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Panel>
  )
}

/** What happened; the name in it, which may be any text, keeps its direction to itself. */
function Happened({ item }: { item: Activity }) {
  const text = happened(item)
  const { name } = item.subject
  const at = typeof name === 'string' ? text.indexOf(name) : -1
  if (typeof name !== 'string' || at === -1) return <>{text}</>
  return (
    <>
      {text.slice(0, at)}
      <bdi>{name}</bdi>
      {text.slice(at + name.length)}
    </>
  )
}

function ActivityRow({ item }: { item: Activity }) {
  return (
    <li class="flex min-h-9 flex-wrap items-center justify-between gap-x-3 border-t border-line py-1 text-table first:border-0">
      <span class="min-w-0 break-words">
        <Happened item={item} />
        {item.actor.type !== 'platform' && <span class="text-soft"> by {actorWords[item.actor.type]}</span>}
      </span>
      <span class="text-soft">
        <When at={item.createdAt} />
      </span>
    </li>
  )
}
