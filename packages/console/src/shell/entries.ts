import type { Application, Organization } from '@platform/sdk'
import { useMemo } from 'preact/hooks'
import { toggleDrawer } from '../command/drawer.tsx'
import { useConfig } from '../config.ts'
import { pathOf, useApplications, useOrganizations, useRole } from '../platform/places.ts'
import { hasSingleKeys, isKeyListOpen, switchSingleKeys } from './keys.tsx'

/** Something that can be gone to or done by its name. */
export interface Entry {
  word: string
  /** What it belongs to, such as `Acme / Shop`. */
  where?: string
  to: { href: string; isElsewhere?: boolean } | { act: () => void }
}

const entry = (word: string, href: string, where?: string): Entry => ({
  word,
  to: { href },
  ...(where !== undefined && { where }),
})

function ofApplication({ name, organization, slug }: Application, isAdmin: boolean): Entry[] {
  const [home, where] = [pathOf(organization.slug, slug), `${organization.name} / ${name}`]
  const variables = `${home}/variables`
  return [
    entry('Overview', home, where),
    entry('Deployments', `${home}/deployments`, where),
    entry('Logs of requests', `${home}/logs`, where),
    entry('Logs of Functions', `${home}/logs?view=lines`, where),
    entry('Variables', variables, where),
    entry('API keys', `${home}/keys`, where),
    entry('Deploy', `${home}?deploy`, where),
    entry('New variable', `${variables}?new`, where),
    entry('Paste a .env file', `${variables}?paste`, where),
    ...(isAdmin ? [entry('New API key', `${home}/keys?new`, where)] : []),
  ]
}

function ofOrganization({ name, slug }: Organization, isAdmin: boolean): Entry[] {
  const home = pathOf(slug)
  return [
    entry('Applications', home, name),
    entry('Variables', `${home}/~/variables`, name),
    entry('Organization', `${home}/~/organization`, name),
    entry('New application', `${home}?new`, name),
    ...(isAdmin ? [entry('New variable', `${home}/~/variables?new`, name)] : []),
  ]
}

/** What can be pressed on the page that is shown. A button with a reason why it cannot be pressed is none of them. */
function entriesOfPage(): Entry[] {
  const pressed = document.querySelectorAll<HTMLElement>(
    'main a[href], main button:not([aria-disabled=true]), main summary',
  )
  const found = new Map<string, Entry>()
  for (const element of pressed) {
    const word = (element.ariaLabel ?? element.textContent).replaceAll(/\s+/g, ' ').trim()
    if (word === '' || found.has(word) || !element.checkVisibility()) continue
    const act = (): void => {
      element.focus()
      element.click()
    }
    found.set(word, { word, where: 'This page', to: { act } })
  }
  return [...found.values()]
}

/**
 * All that can be gone to and done from a page, nearest first: its application, its organization, what is on it, all applications of the
 * organization, all organizations. What the person's role may not do is not among it.
 */
export function useEntries([organizationSlug, applicationSlug]: readonly string[], signOut: () => void): Entry[] {
  const ofPage = useMemo(entriesOfPage, [])
  const { issuer } = useConfig()
  const organizations = useOrganizations().data ?? []
  const organization = organizations.find(({ slug }) => slug === organizationSlug)
  const applications = useApplications(organization?.id).data ?? []
  const application = applications.find(({ slug }) => slug === applicationSlug)
  const role = useRole(organization?.id)
  const isAdmin = role === 'OWNER' || role === 'ADMIN'
  return [
    ...(application ? ofApplication(application, isAdmin) : []),
    ...(organization ? ofOrganization(organization, isAdmin) : []),
    ...ofPage,
    ...applications.filter((each) => each !== application).flatMap((each) => ofApplication(each, isAdmin)),
    ...organizations
      .filter((each) => each !== organization)
      .map(({ name, slug }) => entry('Applications', pathOf(slug), name)),
    entry('New organization', '/?new'),
    { word: 'As a command', to: { act: toggleDrawer } },
    { word: 'List of keys', to: { act: () => (isKeyListOpen.value = true) } },
    {
      word: hasSingleKeys.value ? 'Switch single keys off' : 'Switch single keys on',
      to: { act: () => switchSingleKeys(!hasSingleKeys.value) },
    },
    { word: 'Password, passkeys, sessions', where: 'Account', to: { href: issuer, isElsewhere: true } },
    { word: 'Sign out', where: 'Account', to: { act: signOut } },
  ]
}

const folded = (text: string): string => text.normalize('NFKD').replaceAll(/\p{M}/gu, '').toLowerCase()

/** Those that hold every word of the query, in any order. First come those with the most of them as whole words, then those that begin so. */
export function matching(entries: readonly Entry[], query: string): Entry[] {
  const wanted = folded(query).split(/\s+/).filter(Boolean)
  const ranked = entries.flatMap((entry) => {
    const text = folded(`${entry.word} ${entry.where ?? ''}`)
    if (!wanted.every((word) => text.includes(word))) return []
    const whole = new Set(text.split(/[^\p{L}\p{N}.]+/u))
    const rank = wanted.filter((word) => whole.has(word)).length + (text.startsWith(wanted.join(' ')) ? 0.5 : 0)
    return [{ entry, rank }]
  })
  return ranked.sort((one, other) => other.rank - one.rank).map(({ entry }) => entry)
}
