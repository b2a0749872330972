import { signal } from '@preact/signals'
import { platformName } from '@platform/look/name'
import {
  Activity,
  Braces,
  Building2,
  ChevronDown,
  Circle,
  CircleUser,
  KeyRound,
  type LucideIcon,
  RefreshCw,
  Rocket,
  ScrollText,
  Search,
  SquareStack,
  WifiOff,
} from 'lucide-preact'
import type { ComponentChildren } from 'preact'
import { useLocation } from 'preact-iso'
import { useEffect, useRef } from 'preact/hooks'
import { Drawer, DrawerButton, toggleDrawer } from '../command/drawer.tsx'
import { useConfig } from '../config.ts'
import { sending } from '../deploy/sending.ts'
import { Mark } from '../parts/mark.tsx'
import { Guard } from '../parts/panel.tsx'
import { Toast } from '../parts/toast.tsx'
import { contactAgeMs, offline } from '../platform/contact.ts'
import { type LiveState, liveState } from '../platform/live.ts'
import { pathOf, useOrganizations, usePerson } from '../platform/places.ts'
import { Nothing } from '../screens/nothing.tsx'
import { bytes, duration } from '../words.ts'
import { isKeyListOpen, isPaletteOpen, KeyList, PALETTE_KEY, useKeys } from './keys.tsx'
import { Palette } from './palette.tsx'

const liveWords: Record<
  Exclude<LiveState, 'off'>,
  { word: string; meaning: string; Icon: LucideIcon; tone: string }
> = {
  live: { word: 'Live', meaning: 'Changes appear as they happen', Icon: Circle, tone: 'text-ok' },
  'catching-up': { word: 'Catching up', meaning: 'Connecting to the platform', Icon: RefreshCw, tone: 'text-soft' },
  polling: {
    word: 'Polling',
    meaning: 'Other windows hold all connections of this browser, so this one asks every five seconds',
    Icon: RefreshCw,
    tone: 'text-soft',
  },
}

function Connection() {
  if (offline.value)
    return (
      <span class="inline-flex items-center gap-1.5 text-note text-warn" title="This browser has no network">
        <WifiOff size={16} strokeWidth={1.5} aria-hidden="true" /> Offline
      </span>
    )
  if (liveState.value === 'off') return null
  const { word, meaning, Icon, tone } = liveWords[liveState.value]
  return (
    <span class={`inline-flex items-center gap-1.5 text-note ${tone}`} title={meaning}>
      <Icon size={12} strokeWidth={2} class={word === 'Live' ? 'fill-current' : ''} aria-hidden="true" />
      <span class="max-sm:sr-only">{word}</span>
    </span>
  )
}

/** What is shown is old. The sentence is said once; its seconds are for the eye. */
function AgeBanner() {
  const ageMs = contactAgeMs.value
  return (
    <div role="status">
      {ageMs !== undefined && (
        <p class="mb-6 rounded-control border-s-4 border-warn bg-warn-tint p-3">
          {offline.value ? 'This browser is offline.' : 'The platform does not answer.'} What you see is old
          <span aria-hidden="true">: {duration(Math.max(1_000, Math.floor(ageMs / 1_000) * 1_000))}</span>.
        </p>
      )}
    </div>
  )
}

/** What is being sent while another page is shown. */
function UnderWay() {
  const { path } = useLocation()
  const { value } = sending
  if (!value || value.path === path) return null
  const { plan, sentBytes, failure } = value
  return (
    <p
      role={failure ? 'alert' : undefined}
      class={`mb-6 rounded-control border-s-4 p-3 break-words ${failure ? 'border-bad bg-bad-tint' : 'border-accent bg-accent-tint'}`}
    >
      {failure ? `${plan.name} was not sent: ${failure.message}` : `Sending ${plan.name}, ${bytes(sentBytes)} so far`}{' '}
      <a href={value.path} class="text-accent underline">
        Show
      </a>
    </p>
  )
}

/** A list that a button opens. It is a popover: Escape, a click elsewhere and a choice close it. */
function Menu({
  id,
  label,
  children,
  items,
  align,
}: {
  id: string
  label: string
  children: ComponentChildren
  items: ComponentChildren
  align: 'start' | 'end'
}) {
  const list = useRef<HTMLDivElement>(null)
  const button = useRef<HTMLButtonElement>(null)
  const place = (): void => {
    const box = button.current?.getBoundingClientRect()
    if (!box || !list.current) return
    list.current.style.top = `${box.bottom + 4}px`
    if (align === 'start') list.current.style.left = `${box.left}px`
    else list.current.style.right = `${document.documentElement.clientWidth - box.right}px`
  }
  return (
    <>
      <button
        ref={button}
        type="button"
        popovertarget={id}
        aria-label={label}
        title={label}
        class="inline-flex h-8 min-w-8 items-center justify-center gap-1 rounded-control px-1 hover:bg-sunken pointer-coarse:h-11 pointer-coarse:min-w-11"
      >
        {children}
      </button>
      <div
        ref={list}
        id={id}
        popover="auto"
        class="fixed inset-auto m-0 max-h-[70dvh] max-w-[calc(100vw-2rem)] min-w-56 overflow-y-auto rounded-control border border-line bg-surface p-1 text-ink shadow-float"
        onBeforeToggle={place}
        onClick={({ target }) => (target as Element).closest('a, button') && list.current?.hidePopover()}
      >
        {items}
      </div>
    </>
  )
}

const itemClass =
  'flex min-h-8 w-full items-center gap-2 rounded-badge px-3 py-1 text-start hover:bg-sunken pointer-coarse:min-h-11'

function Organizations({ current }: { current: string | undefined }) {
  const { data = [] } = useOrganizations()
  return (
    <Menu
      id="organizations"
      label="Switch organization"
      align="start"
      items={
        <>
          {data.map(({ id, slug, name }) => (
            <a key={id} href={pathOf(slug)} class={itemClass} aria-current={slug === current ? 'true' : undefined}>
              <span class={`truncate ${slug === current ? 'font-semibold' : ''}`}>{name}</span>
            </a>
          ))}
          <a href="/?new" class={`${itemClass} text-accent`}>
            New organization
          </a>
        </>
      }
    >
      <ChevronDown size={16} strokeWidth={1.5} aria-hidden="true" />
    </Menu>
  )
}

function Account({ signOut }: { signOut: () => void }) {
  const { issuer } = useConfig()
  const { data: person } = usePerson()
  return (
    <Menu
      id="account"
      label="Account"
      align="end"
      items={
        <>
          {person?.email !== undefined && (
            <p class="px-3 py-2 text-note break-all text-soft">Signed in as {person.email}</p>
          )}
          <a href={issuer} class={itemClass}>
            Password, passkeys, sessions
          </a>
          <button type="button" class={`${itemClass} @min-[22rem]:hidden`} onClick={() => (isPaletteOpen.value = true)}>
            Go to
          </button>
          <button type="button" class={`${itemClass} sm:hidden`} onClick={toggleDrawer}>
            As a command
          </button>
          <button type="button" class={itemClass} onClick={() => (isKeyListOpen.value = true)}>
            Keys
          </button>
          <button type="button" class={itemClass} onClick={signOut}>
            Sign out
          </button>
        </>
      }
    >
      <CircleUser size={16} strokeWidth={1.5} aria-hidden="true" />
    </Menu>
  )
}

interface Entry {
  href: string
  word: string
  Icon: LucideIcon
  isHere: boolean
}

function entriesOf([organization, application, part]: readonly string[]): Entry[] {
  if (organization === undefined) return []
  if (application === undefined || application === '~') {
    const own = `${pathOf(organization)}/~`
    return [
      { href: pathOf(organization), word: 'Applications', Icon: SquareStack, isHere: application === undefined },
      { href: `${own}/variables`, word: 'Variables', Icon: Braces, isHere: part === 'variables' },
      { href: `${own}/organization`, word: 'Organization', Icon: Building2, isHere: part === 'organization' },
    ]
  }
  const home = pathOf(organization, application)
  return [
    { href: home, word: 'Overview', Icon: Activity, isHere: part === undefined },
    { href: `${home}/deployments`, word: 'Deployments', Icon: Rocket, isHere: part === 'deployments' },
    { href: `${home}/logs`, word: 'Logs', Icon: ScrollText, isHere: part === 'logs' },
    { href: `${home}/variables`, word: 'Variables', Icon: Braces, isHere: part === 'variables' },
    { href: `${home}/keys`, word: 'API keys', Icon: KeyRound, isHere: part === 'keys' },
  ]
}

/** The text that a part of an address stands for; undefined if it stands for none, such as `%zz`. */
const textOf = (segment: string): string | undefined => {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}

/** True while the page of the address is fetched, and the one before it is still shown. */
export const isPageOnTheWay = signal(false)

/** What stands around each page: where it is, where one can go, and whether what it shows is fresh. */
export function Shell({ signOut, children }: { signOut: () => void; children: ComponentChildren }) {
  const { path } = useLocation()
  const main = useRef<HTMLElement>(null)
  const segments = path
    .split('/')
    .filter(Boolean)
    .map((segment) => textOf(segment) ?? segment)
  const [organization, application] = segments
  const entries = entriesOf(segments)
  useKeys()
  // A popover that navigated away stays open on no page.
  useEffect(() => document.querySelectorAll<HTMLElement>(':popover-open').forEach((each) => each.hidePopover()), [path])
  return (
    <div class="flex min-h-dvh flex-col">
      <a
        href="#main"
        class="sr-only z-20 rounded-control bg-surface p-3 focus:not-sr-only focus:fixed focus:start-2 focus:top-2"
        onClick={(event) => {
          event.preventDefault()
          main.current?.focus()
        }}
      >
        Skip to the content
      </a>
      <header class="@container border-b border-line bg-surface">
        <div class="flex h-12 items-center gap-2 px-4 sm:px-6">
          <a href="/" class="flex shrink-0 items-center gap-2 py-2 font-semibold" aria-label={platformName}>
            <Mark /> <span class="max-sm:hidden">{platformName}</span>
          </a>
          {organization !== undefined && (
            <nav aria-label="Where you are" class="flex min-w-0 items-center gap-1 text-body">
              <span aria-hidden="true" class="text-faint">
                /
              </span>
              <a href={pathOf(organization)} class="min-w-6 truncate rounded-badge px-1 py-2 hover:bg-sunken">
                {organization}
              </a>
              <Organizations current={organization} />
              {application !== undefined && application !== '~' && (
                <>
                  <span aria-hidden="true" class="text-faint">
                    /
                  </span>
                  <a
                    href={pathOf(organization, application)}
                    class="min-w-6 truncate rounded-badge px-1 py-2 hover:bg-sunken"
                  >
                    {application}
                  </a>
                </>
              )}
            </nav>
          )}
          <div class="ms-auto flex shrink-0 items-center gap-2">
            <Connection />
            <button
              type="button"
              aria-keyshortcuts="Control+K Meta+K"
              class="hidden h-8 items-center gap-2 rounded-control border border-line px-2 text-note text-soft hover:bg-sunken pointer-coarse:h-11 pointer-coarse:min-w-11 pointer-coarse:justify-center @min-[22rem]:inline-flex"
              onClick={() => (isPaletteOpen.value = true)}
            >
              <Search size={16} strokeWidth={1.5} aria-hidden="true" />
              <span class="max-lg:sr-only">Go to</span>
              <kbd class="font-mono max-lg:hidden" aria-hidden="true">
                {PALETTE_KEY}
              </kbd>
            </button>
            <DrawerButton />
            <Account signOut={signOut} />
          </div>
        </div>
      </header>
      <div class="flex grow flex-col lg:flex-row">
        {entries.length > 0 && (
          <nav
            aria-label="Parts"
            class="flex gap-1 overflow-x-auto border-line px-3 py-2 max-lg:border-b sm:px-5 lg:w-56 lg:shrink-0 lg:flex-col lg:border-e lg:px-3 lg:py-4"
          >
            {entries.map(({ href, word, Icon, isHere }) => (
              <a
                key={href}
                href={href}
                aria-current={isHere ? 'page' : undefined}
                class={`flex h-8 items-center gap-2 rounded-control px-3 pointer-coarse:h-11 ${isHere ? 'bg-accent-tint font-medium text-accent' : 'text-soft hover:bg-sunken hover:text-ink'}`}
              >
                <Icon size={16} strokeWidth={1.5} aria-hidden="true" /> {word}
              </a>
            ))}
          </nav>
        )}
        <main ref={main} id="main" tabIndex={-1} aria-busy={isPageOnTheWay} class="min-w-0 grow px-4 pt-6 sm:px-6">
          <div class="mx-auto max-w-[75rem]">
            <AgeBanner />
            <UnderWay />
            {/* The router throws at a path that stands for no text. */}
            <Guard>{textOf(path) === undefined ? <Nothing /> : children}</Guard>
          </div>
        </main>
      </div>
      <Drawer />
      {isPaletteOpen.value && <Palette segments={segments} signOut={signOut} />}
      {isKeyListOpen.value && <KeyList />}
      <Toast />
    </div>
  )
}
