import { cancelDeployment, type Deployment } from '@platform/sdk'
import { ExternalLink } from 'lucide-preact'
import type { ComponentType } from 'preact'
import { lazy } from 'preact-iso'
import { useState } from 'preact/hooks'
import { didAs, type TerminalLine, useLine } from '../../command/terminal.ts'
import { Button, buttonClass } from '../../parts/button.tsx'
import { Copy, Id } from '../../parts/copy.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { Failure, Wrong } from '../../parts/notice.tsx'
import { Fact, Facts, LoadedPage, Page } from '../../parts/page.tsx'
import { Standing } from '../../parts/standing.tsx'
import { When } from '../../parts/when.tsx'
import { useChange } from '../../platform/api.ts'
import {
  ofApplication,
  useActivityOf,
  useCurrentDeployment,
  useDeployment,
  useDeployments,
} from '../../platform/deployments.ts'
import { pathOf } from '../../platform/places.ts'
import { isUuid } from '../../platform/query.ts'
import { useApplication } from '../../platform/surroundings.ts'
import { bytes, duration, isUnderWay, nameOf, shortId, standingOf } from '../../words.ts'
import { PromoteButton } from '../deployments/promote-button.tsx'
import { InApplication, NotHere } from '../place.tsx'
import { Log } from './log.tsx'
import { Steps } from './steps.tsx'

interface PartProps {
  deployment: Deployment
}

/** The parts of a deployment, by their names in the address. The log is where one comes to first. */
const parts: Record<string, { word: string; Part: ComponentType<PartProps> }> = {
  log: { word: 'Log', Part: Log },
  files: { word: 'Files', Part: lazy(() => import('./files.tsx')) },
  functions: { word: 'Functions', Part: lazy(() => import('./functions.tsx')) },
  crons: { word: 'Cron jobs', Part: lazy(() => import('./crons.tsx')) },
  hostnames: { word: 'Hostnames', Part: lazy(() => import('./hostnames.tsx')) },
  images: { word: 'Image cache', Part: lazy(() => import('./images.tsx')) },
  variables: { word: 'Variables', Part: lazy(() => import('./variables.tsx')) },
}

/** How a terminal reads a part. */
function lineOf(part: string, id: string): TerminalLine {
  const path = `/deployments/${id}`
  switch (part) {
    case 'log':
      return { words: ['logs', id, '--build'] }
    case 'hostnames':
      return { method: 'GET', path: `${path}/hostnames` }
    case 'images':
      return { method: 'GET', path: `${path}/image-cache` }
    case 'variables':
      return { method: 'GET', path }
    default:
      return { words: ['inspect', id] }
  }
}

interface Address {
  organization: string
  application: string
  deployment: string
  part?: string
}

export default function DeploymentScreen({ organization, application, deployment, part }: Address) {
  return (
    <InApplication organization={organization} application={application}>
      <One key={deployment} id={deployment} part={part ?? 'log'} />
    </InApplication>
  )
}

function One({ id, part }: { id: string; part: string }) {
  const { organization, application } = useApplication()
  const list = pathOf(organization.slug, application.slug, 'deployments')
  const missing = <NotHere what="deployment" name={id} way="To all deployments" href={list} />
  return isUuid(id) ? <Found id={id} part={part} list={list} missing={missing} /> : missing
}

function Found({ id, part, list, missing }: { id: string; part: string; list: string; missing: preact.VNode }) {
  const { application } = useApplication()
  const answer = useDeployment(application, id)
  // The log's stream tells of the states, too: one stream a window.
  const isLogLive = part === 'log' && (answer.data === undefined || isUnderWay(answer.data))
  useActivityOf(application, { isOff: isLogLive })
  const status = (answer.error as { status?: number } | null)?.status
  if (status === 404 || (answer.data && answer.data.applicationId !== application.id)) return missing
  return (
    <LoadedPage title={`Deployment ${shortId(id)}`} answer={answer}>
      {(deployment) => <Shown deployment={deployment} part={part} list={list} />}
    </LoadedPage>
  )
}

function Shown({ deployment, part, list }: { deployment: Deployment; part: string; list: string }) {
  const { application } = useApplication()
  const newest = useDeployments(application, {})
  const current = useCurrentDeployment(application, newest.data).data ?? undefined
  const { id, url, status, retiredAt, failureReason, createdAt, environment, sizeBytes, buildDurationMs, git } =
    deployment
  const standing = standingOf(deployment)
  useLine(lineOf(part, id))
  const answers = status === 'ACTIVE' && retiredAt === null
  const chosen = parts[part]
  return (
    <Page
      title={nameOf(deployment)}
      action={
        <>
          {answers && (
            <a href={url} target="_blank" rel="noreferrer" class={buttonClass(deployment.isCurrent ? 'main' : 'quiet')}>
              <ExternalLink size={16} strokeWidth={1.5} aria-hidden="true" /> Open
              <span class="sr-only"> in a new tab</span>
            </a>
          )}
          <PromoteButton deployment={deployment} current={current} />
          {isUnderWay(deployment) && <Cancel deployment={deployment} />}
        </>
      }
      facts={
        <Facts>
          <Fact name="State">
            <Standing name={standing} />
          </Fact>
          <Fact name="Environment">{environment === 'production' ? 'Production' : 'Preview'}</Fact>
          {answers && (
            <Fact name="Address">
              <span class="inline-flex items-center gap-1 break-all">
                {new URL(url).host} <Copy text={url} what="the address" />
              </span>
            </Fact>
          )}
          <Fact name="Created">
            <When at={createdAt} />
          </Fact>
          {buildDurationMs !== null && <Fact name="Build">{duration(buildDurationMs)}</Fact>}
          {sizeBytes !== null && <Fact name="Size">{bytes(sizeBytes)}</Fact>}
          {git?.commit && (
            <Fact name="Commit">
              <span class="inline-flex items-center gap-1">
                <code class="shrink-0 font-mono">{git.commit.slice(0, 8)}</code>
                {git.branch && <span class="break-all text-soft">on {git.branch}</span>}
              </span>
            </Fact>
          )}
          <Fact name="Id">
            <Id id={id} />
          </Fact>
        </Facts>
      }
    >
      {standing === 'failed' && (
        <div role="alert" class="rounded-control border-s-4 border-bad bg-bad-tint p-3">
          <p class="font-medium">The deployment failed</p>
          <p class="break-words whitespace-pre-wrap">{failureReason}</p>
        </div>
      )}
      {standing === 'retired' && <Wrong>It was retired: it no longer answers, and its files are gone.</Wrong>}
      {isUnderWay(deployment) && <Steps deployment={deployment} />}
      <div class="flex flex-col gap-4">
        <nav aria-label="Parts of the deployment" class="flex gap-1 overflow-x-auto border-b border-line">
          {Object.entries(parts).map(([name, { word }]) => (
            <a
              key={name}
              href={name === 'log' ? `${list}/${id}` : `${list}/${id}/${name}`}
              aria-current={name === part ? 'page' : undefined}
              class={`border-b-2 px-3 py-2 whitespace-nowrap pointer-coarse:py-3 ${name === part ? 'border-accent font-medium text-ink' : 'border-transparent text-soft hover:text-ink'}`}
            >
              {word}
            </a>
          ))}
        </nav>
        {chosen ? (
          <chosen.Part key={part} deployment={deployment} />
        ) : (
          <Wrong>
            <code class="font-mono break-all">{part}</code> is no part of a deployment. Its parts are above.
          </Wrong>
        )}
      </div>
    </Page>
  )
}

function Cancel({ deployment }: { deployment: Deployment }) {
  const { application } = useApplication()
  const [isAsking, ask] = useState(false)
  const cancelling = useChange((platform) => cancelDeployment(platform, { id: deployment.id }), {
    stale: [ofApplication(application.id)],
    onDone: () => {
      didAs({ words: ['cancel', deployment.id] })
      ask(false)
    },
  })
  return (
    <>
      <Button onClick={() => ask(true)}>Cancel</Button>
      {isAsking && (
        <Dialog
          title="Cancel this deployment?"
          verb="Cancel deployment"
          kind="danger"
          isBusy={cancelling.isPending}
          onConfirm={() => cancelling.mutate(undefined)}
          onClose={() => ask(false)}
        >
          <p>Its build ends. What is live stays live, and the same files can be deployed again.</p>
          {cancelling.error && <Failure error={cancelling.error} />}
        </Dialog>
      )}
    </>
  )
}
