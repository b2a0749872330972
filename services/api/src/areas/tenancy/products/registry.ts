/** Access to a product if nobody has decided anything for an organization. */
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

/** Every product; what an organization may do with it is in the database (wire.md). */
export const products: readonly Product[] = [
  { slug: 'network', displayName: 'Network', accessMode: 'organization', defaultAccessPolicy: 'granted', plans },
  { slug: 'storage', displayName: 'Storage', accessMode: 'organization', defaultAccessPolicy: 'granted', plans },
  { slug: 'ai-gateway', displayName: 'AI gateway', accessMode: 'organization', defaultAccessPolicy: 'granted', plans },
]

export const isProduct = (name: string): name is ProductSlug => products.some(({ slug }) => slug === name)
export const isPlan = (name: string): name is PlanSlug => plans.some(({ slug }) => slug === name)

const MIB = 1_048_576
const GIB = 1_024 * MIB

/**
 * What each plan allows (D77). Exceeding `applications` and `deployments_per_day` is refused with 429 and no Retry-After;
 * exceeding a UTC month's Function hours and build minutes with 402, only when a deployment is created; exceeding
 * `invitations_per_day` and `organizations_per_owner` with 403 (D112, D113).
 */
export const quotas = {
  free: {
    applications: 25,
    deployments_per_day: 50,
    archive_bytes: 250 * MIB,
    unpacked_bytes: GIB,
    concurrent_builds: 1,
    minutes_per_build: 10,
    build_memory_mb: 2_048,
    build_disk_mb: 4_096,
    build_minutes_per_month: 500,
    function_slots: 2,
    function_memory_mb: 512,
    function_hours_per_month: 100,
    image_cache_bytes: 256 * MIB,
    log_retention_days: 3,
    stored_bytes: 5 * GIB,
    invitations_per_day: 20,
    organizations_per_owner: 10,
  },
  pro: {
    applications: 250,
    deployments_per_day: 500,
    archive_bytes: GIB,
    unpacked_bytes: 2 * GIB,
    concurrent_builds: 3,
    minutes_per_build: 30,
    build_memory_mb: 4_096,
    build_disk_mb: 10_240,
    build_minutes_per_month: 10_000,
    function_slots: 10,
    function_memory_mb: 1_024,
    function_hours_per_month: 2_000,
    image_cache_bytes: 5 * GIB,
    log_retention_days: 14,
    stored_bytes: 1_024 * GIB,
    invitations_per_day: 200,
    organizations_per_owner: 100,
  },
} satisfies Record<PlanSlug, Record<string, number>>

export type Quota = keyof (typeof quotas)['free']
export const quotaNames = Object.keys(quotas.free) as readonly Quota[]
