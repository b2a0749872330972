import {
  type ApplicationRuntimeLog,
  getRequest,
  listApplicationRuntimeLogs,
  type RequestLogDetail,
} from '@platform/sdk'
import { X } from 'lucide-preact'
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import { plainText } from '../../log/escapes.ts'
import { clock, GROUNDS } from '../../log/row.tsx'
import { buttonClass } from '../../parts/button.tsx'
import { Copy } from '../../parts/copy.tsx'
import { Fact, Facts } from '../../parts/page.tsx'
import { Loaded } from '../../parts/panel.tsx'
import { When } from '../../parts/when.tsx'
import { useApi } from '../../platform/api.ts'
import { ofApplication } from '../../platform/deployments.ts'
import { pathOf } from '../../platform/places.ts'
import { useApplication } from '../../platform/surroundings.ts'
import { bytes, counted, duration, number } from '../../words.ts'
import { toneOf } from './tones.ts'

const HEADERS_SHOWN = 80
const LINES_SHOWN = 50
/** Of a line here; all of it is in the list of lines. */
const CHARACTERS_SHOWN = 2_000

/** A request with its headers, and what its Function printed meanwhile. */
export function RequestDetail({ id, closeHref }: { id: string; closeHref: string }) {
  const { application } = useApplication()
  const heading = useRef<HTMLHeadingElement>(null)
  const answer = useApi([...ofApplication(application.id), 'request', id], (platform, options) =>
    getRequest(platform, { id: application.id, requestId: id }, options),
  )
  useLayoutEffect(() => {
    heading.current?.focus({ preventScroll: true })
    heading.current?.scrollIntoView({ block: 'nearest' })
  }, [id])
  return (
    <section
      aria-labelledby="request-title"
      class="flex min-w-0 flex-col gap-4 rounded-control border border-line bg-surface p-3 sm:p-4"
    >
      <div class="flex flex-wrap items-center justify-between gap-x-3 gap-y-1">
        <h2 id="request-title" ref={heading} tabIndex={-1} class="scroll-mt-4 text-body font-semibold">
          Request
        </h2>
        <a href={closeHref} class={`${buttonClass('plain')} min-w-0`}>
          <X size={16} strokeWidth={1.5} aria-hidden="true" /> Close
        </a>
      </div>
      <Loaded answer={answer} rows={8}>
        {(request) => <Detail request={request} />}
      </Loaded>
    </section>
  )
}

function Detail({ request: log }: { request: RequestLogDetail }) {
  const { request, response, metrics } = log
  const url = `${request.hostname}${request.path}${request.query === '' ? '' : `?${request.query}`}`
  return (
    <>
      <p class="font-mono text-table break-all">
        <span class={`font-semibold ${toneOf(response.status)}`}>{response.status}</span> {request.method} {url}
      </p>
      <Facts>
        <Fact name="Began">
          <When at={log.startedAt} isClock />
        </Fact>
        <Fact name="Took">{duration(metrics.durationMs)}</Fact>
        <Fact name="Cache">{response.cacheStatus ?? 'not asked'}</Fact>
        <Fact name="Sent">{bytes(metrics.bytesSent)}</Fact>
        <Fact name="Received">{bytes(metrics.requestBodyBytes)}</Fact>
        <Fact name="Protocol">{request.protocol}</Fact>
        {request.country !== null && <Fact name="Country">{request.country}</Fact>}
        {response.region !== null && <Fact name="Region">{response.region}</Fact>}
        {response.edgeLocation !== null && <Fact name="Edge">{response.edgeLocation}</Fact>}
        <ServedBy log={log} />
        <Fact name="Id">
          <span class="flex items-center gap-1 font-mono text-note break-all">
            {log.id} <Copy text={log.id} what="the id of the request" />
          </span>
        </Fact>
      </Facts>
      {log.deploymentFunction !== null && <Lines log={log} />}
      <Headers title="Request headers" headers={log.requestHeaders} />
      <Headers title="Response headers" headers={log.responseHeaders} />
    </>
  )
}

function ServedBy({ log }: { log: RequestLogDetail }) {
  const { organization, application } = useApplication()
  const { deployment, deploymentFunction, deploymentAsset, storageBucket, storageObject } = log
  const ofDeployment = deployment && pathOf(organization.slug, application.slug, 'deployments', deployment.id)
  const linked = (href: string | null, children: ComponentChildren) =>
    href === null ? (
      <bdi>{children}</bdi>
    ) : (
      <a href={href} class="break-all text-accent underline">
        {children}
      </a>
    )
  return (
    <>
      {ofDeployment !== null && deployment !== null && (
        <Fact name="Deployment">
          <a href={ofDeployment} class="font-mono text-note text-accent underline" title={deployment.id}>
            {`…${deployment.id.slice(-6)}`}
          </a>
        </Fact>
      )}
      {deploymentFunction !== null && (
        <Fact name="Function">{linked(ofDeployment && `${ofDeployment}/functions`, deploymentFunction.path)}</Fact>
      )}
      {deploymentAsset !== null && (
        <Fact name="File">{linked(ofDeployment && `${ofDeployment}/files`, deploymentAsset.path)}</Fact>
      )}
      {storageBucket !== null && <Fact name="Bucket">{linked(null, storageBucket.name)}</Fact>}
      {storageObject !== null && <Fact name="Object">{linked(null, storageObject.key)}</Fact>}
    </>
  )
}

const Part = ({ title, children }: { title: string; children: ComponentChildren }) => (
  <div class="flex min-w-0 flex-col gap-2">
    <h3 class="font-medium">{title}</h3>
    {children}
  </div>
)

function Headers({ title, headers }: { title: string; headers: Readonly<Record<string, string>> }) {
  const entries = Object.entries(headers)
  const rest = entries.slice(HEADERS_SHOWN).map(([name, value]) => `${name}: ${plainText(value)}`)
  return (
    <Part title={title}>
      {entries.length === 0 && <p class="text-soft">None.</p>}
      <dl class="flex flex-col gap-1 font-mono text-note">
        {entries.slice(0, HEADERS_SHOWN).map(([name, value]) => (
          <div key={name} class="break-all">
            <dt class="inline text-soft">{name}: </dt>
            <dd class="inline">{plainText(value)}</dd>
          </div>
        ))}
      </dl>
      {rest.length > 0 && <pre class="font-mono text-note break-all whitespace-pre-wrap">{rest.join('\n')}</pre>}
    </Part>
  )
}

function Lines({ log: { id } }: { log: RequestLogDetail }) {
  const { organization, application } = useApplication()
  const answer = useApi([...ofApplication(application.id), 'request-lines', id], (platform, options) =>
    listApplicationRuntimeLogs(platform, { id: application.id, requestId: id, limit: LINES_SHOWN }, options),
  )
  return (
    <Part title="What its Function printed">
      <Loaded answer={answer}>
        {({ items, total }) => (
          <>
            {items.length === 0 && <p class="text-soft">Nothing.</p>}
            {items.length > 0 && (
              <ol class="flex flex-col rounded-control bg-sunken py-2 font-mono text-table">
                {items.toReversed().map((line) => (
                  <Line key={line.id} line={line} />
                ))}
              </ol>
            )}
            {items.length > 0 && (
              <a
                href={`${pathOf(organization.slug, application.slug, 'logs')}?view=lines&requestId=${id}`}
                class="self-start text-accent underline"
              >
                {total > items.length
                  ? `All ${number(total)} lines among those of the application`
                  : `${counted(total, 'line')} among those of the application`}
              </a>
            )}
          </>
        )}
      </Loaded>
    </Part>
  )
}

function Line({ line: { createdAt, level, message } }: { line: ApplicationRuntimeLog }) {
  const text = useMemo(() => plainText(message.slice(0, CHARACTERS_SHOWN)), [message])
  return (
    <li class={`border-s-3 px-2 break-words whitespace-pre-wrap ${GROUNDS[level]}`}>
      <time dateTime={createdAt} class="text-soft select-none">
        {clock(new Date(createdAt))}{' '}
      </time>
      {level === 'ERROR' && <span class="sr-only">Error: </span>}
      {text}
      {message.length > CHARACTERS_SHOWN && '…'}
    </li>
  )
}
