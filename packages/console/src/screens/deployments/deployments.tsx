import type { Deployment } from '@platform/sdk'
import { ExternalLink, GitCommitHorizontal, Upload } from 'lucide-preact'
import { useLocation } from 'preact-iso'
import { appWords, useLine } from '../../command/terminal.ts'
import { buttonClass } from '../../parts/button.tsx'
import { controlClass } from '../../parts/field.tsx'
import { Empty, Wrong } from '../../parts/notice.tsx'
import { Page } from '../../parts/page.tsx'
import { Loaded, Panel } from '../../parts/panel.tsx'
import { Standing } from '../../parts/standing.tsx'
import { When } from '../../parts/when.tsx'
import { PAGE, useActivityOf, useDeployments } from '../../platform/deployments.ts'
import { pathOf } from '../../platform/places.ts'
import { useAddress, useChoice, useIdOf } from '../../platform/query.ts'
import { useApplication } from '../../platform/surroundings.ts'
import { counted, duration, nameOf, number, standingOf, standingWords, type StandingName } from '../../words.ts'
import { InApplication } from '../place.tsx'
import { PromoteButton } from './promote-button.tsx'

const statuses = ['PENDING', 'QUEUED', 'STARTING', 'BUILDING', 'PROVISIONING', 'ACTIVE', 'FAILED'] as const
const environments = ['production', 'preview'] as const

export default function DeploymentsScreen({
  organization,
  application,
}: {
  organization: string
  application: string
}) {
  return (
    <InApplication organization={organization} application={application}>
      <Deployments key={`${organization}/${application}`} />
    </InApplication>
  )
}

function Deployments() {
  const { organization, application } = useApplication()
  const environment = useChoice('environment', environments)
  const status = useChoice('status', statuses)
  const from = useIdOf('from')
  const address = useAddress()
  useActivityOf(application)
  const filter = {
    ...(environment.value && { environment: environment.value }),
    ...(status.value && { status: status.value }),
    ...(from.value && { from: from.value }),
  }
  useLine({
    words: [
      'deployments',
      ...appWords(application),
      ...(environment.value ? ['--env', environment.value] : []),
      ...(status.value ? ['--status', status.value] : []),
    ],
  })
  const page = useDeployments(application, filter)
  const wrong = [environment, status, from].flatMap((choice) => choice.wrong ?? [])
  const isFiltered = environment.value !== undefined || status.value !== undefined
  const home = pathOf(organization.slug, application.slug)
  return (
    <Page
      title="Deployments"
      action={
        <a href={`${home}?deploy`} class={buttonClass('main')}>
          <Upload size={16} strokeWidth={1.5} aria-hidden="true" /> Deploy
        </a>
      }
    >
      {wrong.length > 0 && (
        <Wrong>
          <p>The address of this page has filters that are not understood and do not count:</p>
          <ul class="my-2 list-disc ps-5">
            {wrong.map((sentence) => (
              <li key={sentence} class="break-all">
                {sentence}
              </li>
            ))}
          </ul>
          <a href={`${home}/deployments`} class="text-accent underline">
            All deployments
          </a>
        </Wrong>
      )}
      <Panel
        title={page.data ? counted(page.data.total, 'deployment') : 'All deployments'}
        at={page.dataUpdatedAt}
        action={<Filters environment={environment.value} status={status.value} />}
      >
        <Loaded answer={page} rows={10}>
          {({ items }) => (
            <>
              {items.length === 0 && (
                <Empty
                  action={
                    isFiltered || from.value ? (
                      <a href={`${home}/deployments`} class={buttonClass('quiet')}>
                        All deployments
                      </a>
                    ) : (
                      <a href={home} class={buttonClass('main')}>
                        Deploy something
                      </a>
                    )
                  }
                >
                  {isFiltered
                    ? 'No deployment fits these filters.'
                    : from.value
                      ? 'There are no older ones.'
                      : 'Nothing was deployed yet.'}
                </Empty>
              )}
              {items.length > 0 && <DeploymentTable items={items} home={home} />}
              <div class="mt-3 flex flex-wrap gap-3">
                {from.value && (
                  <a href={address({ from: undefined })} class={buttonClass('quiet')}>
                    Back to the newest
                  </a>
                )}
                {items.length === PAGE && (
                  <a href={address({ from: items.at(-1)?.id })} class={buttonClass('quiet')}>
                    Older ones
                  </a>
                )}
              </div>
            </>
          )}
        </Loaded>
      </Panel>
    </Page>
  )
}

function Filters({ environment, status }: { environment: string | undefined; status: string | undefined }) {
  const { route } = useLocation()
  const address = useAddress()
  const choose = (member: string, value: string): void =>
    route(address({ [member]: value === '' ? undefined : value, from: undefined }))
  return (
    <div class="flex max-w-full min-w-0 flex-wrap gap-2">
      <select
        aria-label="Environment"
        class={controlClass}
        value={environment ?? ''}
        onChange={({ currentTarget }) => choose('environment', currentTarget.value)}
      >
        <option value="">Every environment</option>
        <option value="production">Production</option>
        <option value="preview">Preview</option>
      </select>
      <select
        aria-label="State"
        class={controlClass}
        value={status ?? ''}
        onChange={({ currentTarget }) => choose('status', currentTarget.value)}
      >
        <option value="">Every state</option>
        {statuses.map((name) => (
          <option key={name} value={name}>
            {standingWords[name.toLowerCase() as StandingName]}
          </option>
        ))}
      </select>
    </div>
  )
}

function DeploymentTable({ items, home }: { items: readonly Deployment[]; home: string }) {
  const current = items.find(({ isCurrent, isProduction }) => isCurrent && isProduction)
  return (
    <table class="rows">
      <thead>
        <tr>
          <th scope="col">Deployment</th>
          <th scope="col">State</th>
          <th scope="col">Environment</th>
          <th scope="col" class="figure">
            Build
          </th>
          <th scope="col">Created</th>
          <th scope="col">
            <span class="sr-only">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {items.map((deployment) => (
          <DeploymentRow key={deployment.id} deployment={deployment} home={home} current={current} />
        ))}
      </tbody>
    </table>
  )
}

function DeploymentRow({
  deployment,
  home,
  current,
}: {
  deployment: Deployment
  home: string
  current: Deployment | undefined
}) {
  const { id, environment, git, buildDurationMs, createdAt, url, status, retiredAt, failureReason } = deployment
  const standing = standingOf(deployment)
  return (
    <tr>
      <td class="max-w-[28rem] max-sm:basis-full">
        <a href={`${home}/deployments/${id}`} class="inline-block py-0.5 font-medium break-words hover:underline">
          {nameOf(deployment)}
        </a>
        <Commit git={git} />
        {standing === 'failed' && failureReason !== null && <p class="break-words text-bad">{failureReason}</p>}
      </td>
      <td>
        <Standing name={standing} />
      </td>
      <td>{environment === 'production' ? 'Production' : 'Preview'}</td>
      <td class="figure" data-label="Build">
        {buildDurationMs === null ? '–' : duration(buildDurationMs)}
      </td>
      <td>
        <When at={createdAt} />
      </td>
      <td class="max-sm:basis-full">
        <div class="flex flex-wrap items-center gap-2 sm:flex-nowrap sm:justify-end">
          {status === 'ACTIVE' && retiredAt === null && (
            <a href={url} target="_blank" rel="noreferrer" class={buttonClass('plain')}>
              <ExternalLink size={16} strokeWidth={1.5} aria-hidden="true" /> Open
              <span class="sr-only">{nameOf(deployment)} in a new tab</span>
            </a>
          )}
          <PromoteButton deployment={deployment} current={current} isNamed />
        </div>
      </td>
    </tr>
  )
}

function Commit({ git }: { git: Deployment['git'] }) {
  if (!git?.commit && !git?.branch) return null
  return (
    <p class="flex flex-wrap items-center gap-x-2 text-soft">
      <GitCommitHorizontal size={16} strokeWidth={1.5} aria-hidden="true" />
      {git.commit && <code class="shrink-0 font-mono text-note">{git.commit.slice(0, 8)}</code>}
      {git.branch && <span class="break-all">{git.branch}</span>}
      {git.isDirty && <span>with changes that are not committed</span>}
      {git.pullRequest !== null && <span>#{number(git.pullRequest)}</span>}
    </p>
  )
}
