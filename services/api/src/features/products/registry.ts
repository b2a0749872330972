/** How an organization that nobody decided anything for stands to a product. */
type DefaultAccessPolicy = 'granted' | 'explicit_entitlement_required'

export type ProductSlug = 'network' | 'storage' | 'ai-gateway'

export type PlanSlug = 'free' | 'pro'

export interface Product {
  slug: ProductSlug
  displayName: string
  accessMode: 'organization'
  defaultAccessPolicy: DefaultAccessPolicy
  plans: { slug: PlanSlug; displayName: string; description: string }[]
}

const plans: Product['plans'] = [
  { slug: 'free', displayName: 'Free', description: 'To try things and for small projects.' },
  { slug: 'pro', displayName: 'Pro', description: 'For production: higher quotas and longer retention.' },
]

/** Every product there is; what an organization may do with one is in the database (wire.md). */
export const products: readonly Product[] = [
  { slug: 'network', displayName: 'Network', accessMode: 'organization', defaultAccessPolicy: 'granted', plans },
  { slug: 'storage', displayName: 'Storage', accessMode: 'organization', defaultAccessPolicy: 'granted', plans },
  { slug: 'ai-gateway', displayName: 'AI gateway', accessMode: 'organization', defaultAccessPolicy: 'granted', plans },
]

export const isProduct = (name: string): name is ProductSlug => products.some(({ slug }) => slug === name)
export const isPlan = (name: string): name is PlanSlug => plans.some(({ slug }) => slug === name)

/** What each plan allows (D77). A use that would pass a quota is refused with 429 and no Retry-After. */
export const quotas = {
  free: { applications: 25, log_retention_days: 3 },
  pro: { applications: 250, log_retention_days: 14 },
} satisfies Record<PlanSlug, Record<string, number>>

export type Quota = keyof (typeof quotas)['free']
export const quotaNames = Object.keys(quotas.free) as readonly Quota[]
