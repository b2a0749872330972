import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { buttonClass } from '../parts/button.tsx'
import { LoadedPage, Page, PageSkeleton } from '../parts/page.tsx'
import { keepLastOrganization, pathOf, useApplications, useOrganizations } from '../platform/places.ts'
import { ApplicationContext, OrganizationContext, useOrganization } from '../platform/surroundings.ts'

/** An address that names what is not there, or not for this person: the two look the same, here as in the API. */
export function NotHere({ what, name, way, href }: { what: string; name: string; way: string; href: string }) {
  return (
    <Page title={`No ${what} here`}>
      <p class="max-w-[60ch]">
        There is no {what} <code class="font-mono break-all">{name}</code> that you may see. The address may be
        mistyped, it may have been deleted or renamed, or you are no member any more: whoever administers the
        organization can tell.
      </p>
      <p>
        <a href={href} class={buttonClass('main')}>
          {way}
        </a>
      </p>
    </Page>
  )
}

/** A page that belongs to the organization of its address. */
export function InOrganization({ slug, children }: { slug: string; children: ComponentChildren }) {
  const answer = useOrganizations()
  const isThere = answer.data?.some((each) => each.slug === slug) === true
  useEffect(() => {
    if (isThere) keepLastOrganization(slug)
  }, [slug, isThere])
  return (
    <LoadedPage title={slug} answer={answer}>
      {(organizations) => {
        const organization = organizations.find((each) => each.slug === slug)
        // It may have been made a moment ago.
        if (!organization && answer.isFetching) return <PageSkeleton title={slug} />
        if (!organization) return <NotHere what="organization" name={slug} way="To your organizations" href="/" />
        return <OrganizationContext.Provider value={{ organization }}>{children}</OrganizationContext.Provider>
      }}
    </LoadedPage>
  )
}

/** A page that belongs to the application of its address. */
export function InApplication({
  organization,
  application,
  children,
}: {
  organization: string
  application: string
  children: ComponentChildren
}) {
  return (
    <InOrganization slug={organization}>
      <Within slug={application}>{children}</Within>
    </InOrganization>
  )
}

function Within({ slug, children }: { slug: string; children: ComponentChildren }) {
  const organization = useOrganization()
  const answer = useApplications(organization.id)
  return (
    <LoadedPage title={slug} answer={answer}>
      {(applications) => {
        const application = applications.find((each) => each.slug === slug)
        if (!application && answer.isFetching) return <PageSkeleton title={slug} />
        if (!application)
          return (
            <NotHere
              what="application"
              name={`${organization.slug}/${slug}`}
              way={`To the applications of ${organization.name}`}
              href={pathOf(organization.slug)}
            />
          )
        return (
          <ApplicationContext.Provider value={{ organization, application }}>{children}</ApplicationContext.Provider>
        )
      }}
    </LoadedPage>
  )
}
