import { listProducts, listQuotas, type Member, type ProductAccess } from '@platform/sdk'
import { Braces } from 'lucide-preact'
import { useLine } from '../../command/terminal.ts'
import { buttonClass } from '../../parts/button.tsx'
import { Fact, Facts, Page } from '../../parts/page.tsx'
import { Loaded, Panel } from '../../parts/panel.tsx'
import { When } from '../../parts/when.tsx'
import { useApi } from '../../platform/api.ts'
import { callMember, pathOf, useAdminObstacle, useMembers, usePerson } from '../../platform/places.ts'
import { useOrganization } from '../../platform/surroundings.ts'
import { counted } from '../../words.ts'
import { InOrganization } from '../place.tsx'
import { QuotaTables } from './quotas.tsx'

export default function OrganizationScreen({ organization }: { organization: string }) {
  return (
    <InOrganization slug={organization}>
      <Overview key={organization} />
    </InOrganization>
  )
}

const EVERY_MS = 20_000

function Overview() {
  const organization = useOrganization()
  const { id, name, slug } = organization
  const members = useMembers(id)
  const products = useApi(['products', id], (platform, options) => listProducts(platform, { id }, options))
  const quotas = useApi(['quotas', id], (platform, options) => listQuotas(platform, { id }, options), {
    everyMs: EVERY_MS,
  })
  useLine({ method: 'GET', path: `/organizations/${id}/quotas` })
  return (
    <Page
      title={name}
      facts={
        <Facts>
          <Fact name="Address">{slug}</Fact>
          <Fact name="Created">
            <When at={organization.createdAt} />
          </Fact>
        </Facts>
      }
    >
      <Panel title={members.data ? counted(members.data.items.length, 'member') : 'Members'} at={members.dataUpdatedAt}>
        <Loaded answer={members} rows={3}>
          {({ items }) => <MemberTable items={items} />}
        </Loaded>
      </Panel>
      <Panel title="Quotas" at={quotas.dataUpdatedAt}>
        <Loaded answer={quotas} rows={15}>
          {(data) => <QuotaTables quotas={data} />}
        </Loaded>
      </Panel>
      <div class="grid gap-8 lg:grid-cols-2">
        <Panel title="Products" at={products.dataUpdatedAt}>
          <Loaded answer={products} rows={3}>
            {({ items }) => <ProductTable items={items} />}
          </Loaded>
        </Panel>
        <Panel title="Variables">
          <Variables organizationId={id} href={`${pathOf(slug)}/~/variables`} />
        </Panel>
      </div>
    </Page>
  )
}

/** An API that is newer than the console may have others. */
const roles: Readonly<Record<string, string>> = {
  OWNER: 'Owner',
  ADMIN: 'Administrator',
  MEMBER: 'Member',
} satisfies Record<Member['role'], string>

function MemberTable({ items }: { items: readonly Member[] }) {
  const person = usePerson().data
  return (
    <table class="rows">
      <thead>
        <tr>
          <th scope="col">Member</th>
          <th scope="col">Role</th>
          <th scope="col">Since</th>
        </tr>
      </thead>
      <tbody>
        {items.map((member) => (
          <tr key={member.membershipId}>
            <td class="break-words max-sm:basis-full">
              <bdi class="font-medium">{callMember(member)}</bdi>
              {member.userId === person?.sub && <span class="text-soft"> (you)</span>}
              {member.email !== null && member.email !== callMember(member) && (
                <p class="break-all text-soft">{member.email}</p>
              )}
            </td>
            <td>{roles[member.role] ?? member.role}</td>
            <td data-label="Since">
              <When at={member.joinedAt} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

/** Whether it may be used, and by which decision. */
function standingOf({ hasAccess, explicitEntitlement }: ProductAccess): string {
  if (hasAccess) return explicitEntitlement ? 'Granted by the operator' : 'Granted to every organization'
  if (explicitEntitlement?.status === 'SUSPENDED') return 'Suspended by the operator'
  return explicitEntitlement ? 'Revoked by the operator' : 'Not granted by the operator'
}

function ProductTable({ items }: { items: readonly ProductAccess[] }) {
  return (
    <table class="rows">
      <thead>
        <tr>
          <th scope="col">Product</th>
          <th scope="col">Access</th>
          <th scope="col">Plan</th>
        </tr>
      </thead>
      <tbody>
        {items.map((access) => {
          const { product, hasAccess, subscription } = access
          const plan = subscription?.status === 'ACTIVE' ? subscription.plan : 'free'
          return (
            <tr key={product.slug}>
              <td class="font-medium max-sm:basis-full">{product.displayName}</td>
              <td class={hasAccess ? '' : 'text-bad'}>{standingOf(access)}</td>
              <td data-label="Plan">{product.plans.find((each) => each.slug === plan)?.displayName ?? plan}</td>
            </tr>
          )
        })}
      </tbody>
    </table>
  )
}

function Variables({ organizationId, href }: { organizationId: string; href: string }) {
  const obstacle = useAdminObstacle(organizationId)
  return (
    <div class="flex flex-col items-start gap-3">
      <p>
        Variables of the organization hold in each of its applications, unless one of theirs hides it.{' '}
        {obstacle === undefined
          ? 'A change takes effect with the next deployment.'
          : 'Owners and administrators change them; as a member you may read them.'}
      </p>
      <a href={href} class={buttonClass('quiet')}>
        <Braces size={16} strokeWidth={1.5} aria-hidden="true" /> Variables of the organization
      </a>
    </div>
  )
}
