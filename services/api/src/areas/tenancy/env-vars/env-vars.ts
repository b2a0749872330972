import { BadRequest, Conflict, NotFound } from '@platform/errors/api-error'
import { isUniqueViolation, one } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { resealRows } from '@platform/runtime/reseal-rows'
import { and, asc, eq, getTableColumns, or, type SQL } from 'drizzle-orm'
import type { Actor } from '../../../http/actor.ts'
import type { TenancyDeps } from '../deps.ts'
import { recordActivity } from '../activity/record.ts'
import { type Application, type Environment, findNamedEnvironment } from '../applications/reach.ts'
import { environments } from '../applications/table.ts'
import type { Organization } from '../organizations/reach.ts'
import { envVars, type Layer } from './table.ts'

/** A variable as the API shows it: never with the value of a sensitive one (A §2, D49). */
export interface ShownVariable {
  id: string
  key: string
  value: string | null
  sensitive: boolean
  scope: Layer
  source: Layer
  environmentId: string | null
  environmentName: string | null
  createdAt: Date
  updatedAt: Date
}

/** Where variables live: an organization's layer, or an application's own and environment layers (D49). */
export type Owner =
  | { kind: 'organization'; organization: Organization }
  /** environmentId: only this environment's layer; undefined: all of them. */
  | { kind: 'application'; application: Application; environmentId: string | undefined }

/** The layers of an application that the actor reaches: for a Function, only those of its environment (D9). */
export const ownerFor = (actor: Actor, application: Application): Owner => ({
  kind: 'application',
  application,
  environmentId: actor.kind === 'function' ? actor.environmentId : undefined,
})

type Row = typeof envVars.$inferSelect & { environmentName: string | null }
type Store = Pick<TenancyDeps, 'db' | 'sealer'>

const uniqueKeys = ['env_vars_organization_key', 'env_vars_application_key', 'env_vars_environment_key']
const columns = { ...getTableColumns(envVars), environmentName: environments.name }

function ownedBy(owner: Owner): SQL | undefined {
  // Only the organization layer has an organizationId.
  if (owner.kind === 'organization') return eq(envVars.organizationId, owner.organization.id)
  const { application, environmentId } = owner
  const isInReach =
    environmentId === undefined
      ? undefined
      : or(eq(envVars.layer, 'application'), eq(envVars.environmentId, environmentId))
  return and(eq(envVars.applicationId, application.id), isInReach)
}

/** A row as answers show it. value: reads its text; not called for a sensitive variable. */
function showAs(value: () => string, row: Row): ShownVariable {
  const { id, key, sensitive, layer, environmentId, environmentName, createdAt, updatedAt } = row
  return {
    id,
    key,
    value: sensitive ? null : value(),
    sensitive,
    scope: layer,
    source: layer,
    environmentId,
    environmentName,
    createdAt,
    updatedAt,
  }
}

const show = ({ sealer }: Pick<TenancyDeps, 'sealer'>, row: Row): ShownVariable =>
  showAs(() => sealer.open(row, row.id).toString('utf8'), row)

/** Only the platform itself sets PLATFORM_ variables (D49). Throws BadRequest. */
function refuseReservedKey(key: string): void {
  if (key.startsWith('PLATFORM_')) throw new BadRequest('Keys that begin with PLATFORM_ are reserved')
}

/** Maps a duplicate key within a layer to a 409, whichever of the three indexes reports it (D29). */
async function refusingDuplicates<T>(key: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (error) {
    if (uniqueKeys.some((name) => isUniqueViolation(error, name)))
      throw new Conflict(`A variable ${key} exists in this layer`)
    throw error
  }
}

/** Every variable of the owner, by key and then by layer (A §1 Whole set). */
export async function listVariables({ db, sealer }: Store, owner: Owner): Promise<ShownVariable[]> {
  const rows = await db
    .select(columns)
    .from(envVars)
    .leftJoin(environments, eq(environments.id, envVars.environmentId))
    .where(ownedBy(owner))
    .orderBy(asc(envVars.key), asc(envVars.layer), asc(environments.slug))
  return rows.map((row) => show({ sealer }, row))
}

/** Records an activity of the application; an organization's layer has no feed. */
async function recordChange(
  tx: Parameters<typeof recordActivity>[0],
  time: Date,
  type: 'variable.created' | 'variable.updated' | 'variable.deleted',
  by: Actor,
  { applicationId, id, key, layer, environmentId, sensitive }: typeof envVars.$inferSelect,
): Promise<void> {
  if (applicationId === null) return
  const subject = { type: 'variable', id, key, layer, environmentId, sensitive }
  await recordActivity(tx, time, { applicationId, type, by, subject })
}

interface NewVariable {
  key: string
  value: string
  sensitive: boolean
}

async function insertVariable(
  { db, sealer, now }: Store & Pick<TenancyDeps, 'now'>,
  by: Actor,
  place: Pick<typeof envVars.$inferInsert, 'layer' | 'organizationId' | 'applicationId' | 'environmentId'>,
  environmentName: string | null,
  { key, value, sensitive }: NewVariable,
): Promise<ShownVariable> {
  refuseReservedKey(key)
  const id = newId()
  const time = now()
  const row = await refusingDuplicates(key, () =>
    db.transaction(async (tx) => {
      const rows = await tx
        .insert(envVars)
        .values({ id, ...place, key, sensitive, ...sealer.seal(value, id), createdAt: time, updatedAt: time })
        .returning()
      await recordChange(tx, time, 'variable.created', by, one(rows))
      return one(rows)
    }),
  )
  return showAs(() => value, { ...row, environmentName })
}

/** Creates a variable of the organization layer. */
export const createOrganizationVariable = (
  deps: Store & Pick<TenancyDeps, 'now'>,
  by: Actor,
  organization: Organization,
  variable: NewVariable,
): Promise<ShownVariable> =>
  insertVariable(deps, by, { layer: 'organization', organizationId: organization.id }, null, variable)

/** The layer of an application's new variable: naming an environment selects the environment layer (wire.md). */
interface Placement {
  environment?: string | undefined
  environmentId?: string | undefined
  scope?: 'application' | 'environment' | undefined
}

async function placeIn(
  call: { deps: Pick<TenancyDeps, 'db'>; actor: Actor },
  application: Application,
  { scope, ...body }: Placement,
): Promise<Environment | undefined> {
  const named = await findNamedEnvironment(call, application, body)
  if (scope === 'environment' && !named) throw new BadRequest('scope environment needs an environment')
  if (scope === 'application' && named) throw new BadRequest('scope application does not go with an environment')
  return named
}

/** Creates a variable of the application layer or of one of its environments. */
export async function createApplicationVariable(
  deps: Store & Pick<TenancyDeps, 'now'>,
  by: Actor,
  application: Application,
  variable: NewVariable & Placement,
): Promise<ShownVariable> {
  const environment = await placeIn({ deps, actor: by }, application, variable)
  const place = environment
    ? { layer: 'environment' as const, applicationId: application.id, environmentId: environment.id }
    : { layer: 'application' as const, applicationId: application.id }
  return insertVariable(deps, by, place, environment?.name ?? null, variable)
}

interface VariableChange {
  key?: string | undefined
  value?: string | undefined
  sensitive?: boolean | undefined
}

/**
 * Updates a variable under its row's lock, so that two updates cannot mix. A sensitive variable can become readable only together
 * with a new value, so the old one stays unknown (wire.md).
 */
export async function updateVariable(
  { db, sealer, now }: Store & Pick<TenancyDeps, 'now'>,
  by: Actor,
  owner: Owner,
  id: string,
  change: VariableChange,
): Promise<ShownVariable> {
  return db.transaction(async (tx) => {
    const [row] = await tx
      .select()
      .from(envVars)
      .where(and(eq(envVars.id, id), ownedBy(owner)))
      .for('no key update')
    if (!row) throw new NotFound('Variable')
    if (change.key !== undefined) refuseReservedKey(change.key)
    if (row.sensitive && change.sensitive === false && change.value === undefined) {
      throw new BadRequest('A sensitive variable becomes readable only together with a new value')
    }
    const key = change.key ?? row.key
    const sealed = change.value === undefined ? {} : sealer.seal(change.value, id)
    const time = now()
    const rows = await refusingDuplicates(key, () =>
      tx
        .update(envVars)
        .set({ key, sensitive: change.sensitive ?? row.sensitive, ...sealed, updatedAt: time })
        .where(eq(envVars.id, id))
        .returning(),
    )
    await recordChange(tx, time, 'variable.updated', by, one(rows))
    const environment =
      row.environmentId === null
        ? []
        : await tx.select({ name: environments.name }).from(environments).where(eq(environments.id, row.environmentId))
    return show({ sealer }, { ...one(rows), environmentName: environment[0]?.name ?? null })
  })
}

/** Throws NotFound for a variable that belongs to another path (D49). */
export async function deleteVariable(
  { db, now }: Pick<TenancyDeps, 'db' | 'now'>,
  by: Actor,
  owner: Owner,
  id: string,
): Promise<void> {
  await db.transaction(async (tx) => {
    const [gone] = await tx
      .delete(envVars)
      .where(and(eq(envVars.id, id), ownedBy(owner)))
      .returning()
    if (!gone) throw new NotFound('Variable')
    await recordChange(tx, now(), 'variable.deleted', by, gone)
  })
}

const precedence: Record<Layer, number> = { organization: 0, application: 1, environment: 2 }

interface Pulled {
  items: { key: string; value: string; source: Layer }[]
  total: number
  omittedSensitive: number
}

/** A merged variable, with the row that won. */
interface Resolved {
  key: string
  source: Layer
  sensitive: boolean
  /** Opens the value. */
  value: () => string
}

/**
 * Merges the layers of an application by key: environment over application over organization; without an environment, only the
 * lower two (D49). Sensitive values are hidden after merging, so a sensitive winner never exposes the value of a lower layer.
 */
export async function resolveVariables(
  { db, sealer }: Store,
  { id, organizationId }: Pick<Application, 'id' | 'organizationId'>,
  environmentId: string | undefined,
): Promise<Resolved[]> {
  const ofApplication = and(
    eq(envVars.applicationId, id),
    or(
      eq(envVars.layer, 'application'),
      environmentId === undefined
        ? undefined
        : and(eq(envVars.layer, 'environment'), eq(envVars.environmentId, environmentId)),
    ),
  )
  const rows = await db
    .select()
    .from(envVars)
    .where(or(eq(envVars.organizationId, organizationId), ofApplication))
  const winners = new Map<string, (typeof rows)[number]>()
  for (const row of rows.toSorted((a, b) => precedence[a.layer] - precedence[b.layer])) winners.set(row.key, row)
  return [...winners.values()]
    .toSorted((a, b) => (a.key < b.key ? -1 : 1))
    .map((row) => ({
      key: row.key,
      source: row.layer,
      sensitive: row.sensitive,
      value: () => sealer.open(row, row.id).toString('utf8'),
    }))
}

/** The merged variables of an application; sensitive ones are omitted and counted (A §4, D49). */
export async function pullVariables(
  store: Store,
  application: Application,
  environmentId: string | undefined,
): Promise<Pulled> {
  const merged = await resolveVariables(store, application, environmentId)
  const items = merged
    .filter(({ sensitive }) => !sensitive)
    .map(({ key, source, value }) => ({ key, value: value(), source }))
  return { items, total: items.length, omittedSensitive: merged.length - items.length }
}

/** Reseals every value that is not sealed with the current master key. Returns how many. Safe to repeat. */
export const resealVariables = (store: Store): Promise<number> => resealRows(store, envVars, (id) => id)
