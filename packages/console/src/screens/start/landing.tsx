import { createOrganization, type Organization } from '@platform/sdk'
import { useLocation } from 'preact-iso'
import { useEffect, useRef } from 'preact/hooks'
import { didAs, useLine } from '../../command/terminal.ts'
import { LoadedPage, Page, PageSkeleton } from '../../parts/page.tsx'
import { useChange } from '../../platform/api.ts'
import { lastOrganization, pathOf, useOrganizations } from '../../platform/places.ts'
import { NameForm } from './name-form.tsx'

/** Until it is known where this leads. */
const TITLE = 'Your applications'

/** The root: leads to the organization that was last looked at, or to a first one. */
export default function Landing() {
  const { path, query } = useLocation()
  // It is shown until the page that it leads to is there, whose address says nothing of this one.
  const isNew = useRef(false)
  if (path === '/') isNew.current = 'new' in query
  return (
    <LoadedPage title={TITLE} answer={useOrganizations()}>
      {(organizations) => {
        const last = organizations.find(({ slug }) => slug === lastOrganization()) ?? organizations[0]
        return last && !isNew.current ? <Lead to={last} /> : <NewOrganization isFirst={last === undefined} />
      }}
    </LoadedPage>
  )
}

function Lead({ to }: { to: Organization }) {
  const { route } = useLocation()
  useEffect(() => route(pathOf(to.slug), true), [to.slug])
  return <PageSkeleton title={TITLE} />
}

function NewOrganization({ isFirst }: { isFirst: boolean }) {
  const { route } = useLocation()
  useLine({ words: ['orgs', 'ls'] })
  const creation = useChange((platform, name: string) => createOrganization(platform, { body: { name } }), {
    stale: [['organizations']],
    onDone: ({ slug }, name) => {
      didAs({ words: ['orgs', 'create'], names: [name] })
      route(pathOf(slug), true)
    },
  })
  return (
    <Page title={isFirst ? 'Welcome' : 'A new organization'}>
      {isFirst && (
        <p class="-mt-4 max-w-[60ch] text-soft">
          Three steps lead to a page that runs: an organization, an application in it, and a folder to deploy.
        </p>
      )}
      <NameForm
        label="Name of the organization"
        hint="Applications, members and quotas belong to it. Its address is made from the name."
        verb="Create organization"
        isBusy={creation.isPending}
        error={creation.error}
        onName={(name) => creation.mutate(name)}
      />
    </Page>
  )
}
