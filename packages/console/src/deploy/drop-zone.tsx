import { FileArchive, FolderOpen, Sparkles } from 'lucide-preact'
import { useLocation } from 'preact-iso'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { useQueryClient } from '@tanstack/preact-query'
import { appWords, didAs } from '../command/terminal.ts'
import { Button } from '../parts/button.tsx'
import { controlClass } from '../parts/field.tsx'
import { Failure, Wrong } from '../parts/notice.tsx'
import { tell } from '../parts/toast.tsx'
import { usePlatform } from '../platform/api.ts'
import { ofApplication } from '../platform/deployments.ts'
import { pathOf } from '../platform/places.ts'
import { useApplication } from '../platform/surroundings.ts'
import { bytes, counted } from '../words.ts'
import { type Plan, planOf } from './plan.ts'
import { startSending } from './send.ts'
import { chosenFolder, chosenZip, droppedThings, type Given } from './dropped.ts'
import { sample } from './sample.ts'
import { type Sending, sending } from './sending.ts'

type Step = { at: 'waiting' } | { at: 'looking'; name: string } | { at: 'planned'; plan: Plan }

/** As many are named one by one. */
const LEFT_NAMED = 50

/** Takes a folder or an archive, shows what of it is sent and what is not, and deploys it. */
export function DropZone() {
  const { organization, application } = useApplication()
  const platform = usePlatform()
  const cache = useQueryClient()
  const { route } = useLocation()
  const [step, setStep] = useState<Step>({ at: 'waiting' })
  const [error, setError] = useState<Error>()
  const [environment, setEnvironment] = useState(application.defaultEnvironmentSlug)
  const work = useRef<AbortController | null>(null)
  const isHere = useRef(true)
  const home = pathOf(organization.slug, application.slug)
  useEffect(
    () => () => {
      isHere.current = false
      work.current?.abort()
    },
    [],
  )

  const take = (given: Promise<Given>): void => {
    work.current?.abort()
    work.current = new AbortController()
    const { signal } = work.current
    setError(undefined)
    setStep({ at: 'looking', name: '' })
    const look = async (): Promise<void> => {
      const what = await given
      setStep({ at: 'looking', name: what.name })
      const plan = await planOf(platform, organization.id, what, signal)
      if (!signal.aborted) setStep({ at: 'planned', plan })
    }
    look().catch((failure: Error) => {
      if (signal.aborted) return
      setStep({ at: 'waiting' })
      setError(failure)
    })
  }

  const send = async (plan: Plan): Promise<void> => {
    const id = await startSending(platform, { plan, applicationId: application.id, path: home, environment })
    if (id === undefined) return
    didAs({ words: ['deploy', ...appWords(application), ...(environment === 'preview' ? ['--preview'] : [])] })
    void cache.invalidateQueries({ queryKey: ofApplication(application.id) })
    const show = (): void => route(`${home}/deployments/${id}`)
    if (isHere.current) show()
    else tell(`${plan.name} was sent`, { word: 'Show its deployment', act: show })
  }

  const under = sending.value
  if (under?.applicationId === application.id && !under.failure) return <Progress sending={under} />
  const failed = under?.applicationId === application.id ? under : undefined
  const plan = failed?.plan ?? (step.at === 'planned' ? step.plan : undefined)
  const failure = failed?.failure ?? error
  return (
    <div class="flex flex-col gap-4">
      {failure && <Failure error={failure} />}
      {plan ? (
        <Planned
          plan={plan}
          environment={environment}
          obstacle={under && !failed && !under.failure ? `${under.plan.name} is still being sent` : undefined}
          onEnvironment={setEnvironment}
          onSend={() => void send(plan)}
          onBack={() => {
            failed?.stop()
            setStep({ at: 'waiting' })
          }}
        />
      ) : step.at === 'looking' ? (
        <p role="status" class="rounded-control border border-line p-6 text-soft">
          Looking through {step.name || 'what you dropped'}
        </p>
      ) : (
        <Door onGiven={take} />
      )}
    </div>
  )
}

/** Preact's types know nothing of it. */
const folders: object = { webkitdirectory: true }

function Door({ onGiven }: { onGiven: (given: Promise<Given>) => void }) {
  const [isOver, setOver] = useState(false)
  const folder = useRef<HTMLInputElement>(null)
  const archive = useRef<HTMLInputElement>(null)
  return (
    <div
      class={`flex flex-col items-center gap-4 rounded-control border border-dashed px-4 py-10 text-center ${isOver ? 'border-accent bg-accent-tint' : 'border-edge bg-surface'}`}
      onDragOver={(event) => {
        event.preventDefault()
        setOver(true)
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault()
        setOver(false)
        if (event.dataTransfer) onGiven(droppedThings(event.dataTransfer))
      }}
    >
      <p class="font-medium">Drop a folder or a zip archive here</p>
      <p class="max-w-[52ch] text-soft">
        A site, a project that is built here, or a build. What your ignore files name, installed packages and secrets
        stay on this machine.
      </p>
      <div class="flex flex-wrap justify-center gap-2">
        <Button kind="main" onClick={() => folder.current?.click()}>
          <FolderOpen size={16} strokeWidth={1.5} aria-hidden="true" /> Choose a folder
        </Button>
        <Button onClick={() => archive.current?.click()}>
          <FileArchive size={16} strokeWidth={1.5} aria-hidden="true" /> Choose an archive
        </Button>
        <Button onClick={() => onGiven(Promise.resolve(sample()))}>
          <Sparkles size={16} strokeWidth={1.5} aria-hidden="true" /> Use the sample
        </Button>
      </div>
      <input
        ref={folder}
        type="file"
        {...folders}
        hidden
        aria-label="Folder"
        onChange={({ currentTarget: input }) => {
          const files = [...(input.files ?? [])]
          input.value = ''
          onGiven(Promise.resolve(files).then(chosenFolder))
        }}
      />
      <input
        ref={archive}
        type="file"
        accept=".zip,application/zip"
        hidden
        aria-label="Archive"
        onChange={({ currentTarget: input }) => {
          const file = input.files?.[0]
          input.value = ''
          if (file) onGiven(Promise.resolve(chosenZip(file)))
        }}
      />
    </div>
  )
}

function Planned({
  plan,
  environment,
  obstacle,
  onEnvironment,
  onSend,
  onBack,
}: {
  plan: Plan
  environment: string
  obstacle: string | undefined
  onEnvironment: (slug: string) => void
  onSend: () => void
  onBack: () => void
}) {
  const id = useId()
  const { name, pack, refusals } = plan
  const left = pack?.left ?? []
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => heading.current?.focus(), [])
  return (
    <div class="flex flex-col gap-4 rounded-control border border-line bg-surface p-4">
      <div>
        <h3 ref={heading} tabIndex={-1} class="font-semibold break-words">
          {name}
        </h3>
        <p class="text-soft">
          {pack
            ? `${counted(pack.files.length, 'file')}, ${bytes(plan.bytes)}`
            : `An archive of ${bytes(plan.bytes)}, sent as it is`}
        </p>
      </div>
      {refusals.length > 0 && (
        <Wrong>
          <p class="font-medium">This cannot be deployed as it is</p>
          <ul class="mt-1 list-disc ps-5">
            {refusals.slice(0, LEFT_NAMED).map((sentence) => (
              <li key={sentence} class="break-words">
                {sentence}
              </li>
            ))}
          </ul>
        </Wrong>
      )}
      {left.length > 0 && (
        <details open={left.length <= 5}>
          <summary class="font-medium">{counted(left.length, 'path')} left out</summary>
          <ul class="mt-2 flex flex-col gap-1">
            {left.slice(0, LEFT_NAMED).map(({ path, why }) => (
              <li key={path} class="break-words">
                <code class="font-mono text-table break-all">{path}</code> <span class="text-soft">{why}</span>
              </li>
            ))}
            {left.length > LEFT_NAMED && (
              <li class="text-soft">and {counted(left.length - LEFT_NAMED, 'more', 'more')}</li>
            )}
          </ul>
        </details>
      )}
      <div class="flex flex-wrap items-end gap-3">
        <div>
          <label for={id} class="mb-1 block font-medium">
            Environment
          </label>
          <select
            id={id}
            class={controlClass}
            value={environment}
            onChange={({ currentTarget }) => onEnvironment(currentTarget.value)}
          >
            <option value="production">Production</option>
            <option value="preview">Preview</option>
          </select>
        </div>
        <Button
          kind="main"
          reason={refusals.length > 0 ? 'Something in it is over a limit' : obstacle}
          onClick={onSend}
        >
          Deploy
        </Button>
        <Button kind="plain" onClick={onBack}>
          Choose something else
        </Button>
      </div>
    </div>
  )
}

function Progress({ sending: { plan, sentBytes, stop } }: { sending: Sending }) {
  return (
    <div class="flex flex-col items-start gap-3 rounded-control border border-line bg-surface p-4">
      <p role="status" class="font-medium break-words">
        Sending {plan.name}
      </p>
      <progress class="h-2 w-full accent-accent" aria-label={`Sending ${plan.name}`} />
      <p class="text-soft tabular-nums">
        {bytes(sentBytes)} sent, of {bytes(plan.bytes)} before packing. You may go to other pages meanwhile.
      </p>
      <Button onClick={stop}>Stop</Button>
    </div>
  )
}
