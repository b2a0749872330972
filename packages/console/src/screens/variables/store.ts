import {
  createApplicationVariable,
  createOrganizationVariable,
  deleteApplicationVariable,
  deleteOrganizationVariable,
  type EnvironmentVariable,
  listApplicationVariables,
  listOrganizationVariables,
  needsSignIn,
  type Platform,
  updateApplicationVariable,
  updateOrganizationVariable,
} from '@platform/sdk'
import { type QueryClient, useQueryClient } from '@tanstack/preact-query'
import { didAs } from '../../command/terminal.ts'
import { type Answer, useApi, usePlatform } from '../../platform/api.ts'
import { ofApplication } from '../../platform/deployments.ts'
import { deleteLine, setLine, updateLine } from './lines.ts'
import type { Layer, Place } from './layers.ts'

/** Nothing tells of changes in the layer of an organization. */
const EVERY_MS = 15_000

const keyOf = ({ organization, application }: Place): readonly string[] =>
  application ? [...ofApplication(application.id), 'variables'] : ['organization-variables', organization.id]

/** The variables of an application with those of its organization, or these alone. */
export const useVariables = (place: Place): Answer<EnvironmentVariable[]> =>
  useApi(
    keyOf(place),
    async (platform, options) => {
      const { organization, application } = place
      const lists = await Promise.all([
        listOrganizationVariables(platform, { id: organization.id }, options),
        ...(application ? [listApplicationVariables(platform, { id: application.id }, options)] : []),
      ])
      return lists.flatMap(({ items }) => items)
    },
    { everyMs: EVERY_MS },
  )

interface NewVariable {
  key: string
  value: string
  sensitive: boolean
}

/** Changes of variables. */
export interface VariableStore {
  create(layer: Layer, variable: NewVariable, signal?: AbortSignal): Promise<EnvironmentVariable>
  update(
    variable: EnvironmentVariable,
    change: { value?: string; sensitive?: boolean },
    signal?: AbortSignal,
  ): Promise<EnvironmentVariable>
  remove(variable: EnvironmentVariable): Promise<void>
  /** What was read last. */
  known(): readonly EnvironmentVariable[]
  /** Whether what was read last has no variable of this id any more. */
  isGone(id: string): boolean
  /** Reads that again. */
  reread(): Promise<void>
}

/**
 * Calls the platform without a mutation of the cache: that one would keep what was sent for minutes, and nothing may keep a sensitive value.
 * All of it throws PlatformError.
 */
export function useVariableStore(place: Place): VariableStore {
  return storeOf(usePlatform(), useQueryClient(), place)
}

function storeOf(platform: Platform, cache: QueryClient, place: Place): VariableStore {
  const { organization, application } = place
  const applicationId = (): string => {
    if (!application) throw new Error('The page of an organization knows no application')
    return application.id
  }
  async function done<T>(work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      // The next read meets the same, and the cache says it to the session.
      if (needsSignIn(error)) void cache.invalidateQueries()
      throw error
    } finally {
      void cache.invalidateQueries({ queryKey: keyOf(place) })
    }
  }
  return {
    async create(layer, { key, value, sensitive }, signal) {
      const body = { key, value, sensitive }
      const made = await done(
        layer === 'organization'
          ? createOrganizationVariable(platform, { id: organization.id, body }, { signal })
          : createApplicationVariable(
              platform,
              { id: applicationId(), body: layer === 'application' ? body : { ...body, environment: layer } },
              { signal },
            ),
      )
      didAs(setLine(place, layer, made))
      return made
    },
    async update(variable, change, signal) {
      const params = { varId: variable.id, body: change }
      const made = await done(
        variable.scope === 'organization'
          ? updateOrganizationVariable(platform, { id: organization.id, ...params }, { signal })
          : updateApplicationVariable(platform, { id: applicationId(), ...params }, { signal }),
      )
      didAs(updateLine(place, made, change.sensitive === false))
      return made
    },
    async remove(variable) {
      await done(
        variable.scope === 'organization'
          ? deleteOrganizationVariable(platform, { id: organization.id, varId: variable.id })
          : deleteApplicationVariable(platform, { id: applicationId(), varId: variable.id }),
      )
      const { id } = variable
      // The next read takes a moment, in which somebody could press Delete again.
      cache.setQueryData<EnvironmentVariable[]>(keyOf(place), (all) => all?.filter((each) => each.id !== id))
      didAs(deleteLine(place, variable))
    },
    known: () => cache.getQueryData<EnvironmentVariable[]>(keyOf(place)) ?? [],
    isGone: (id) => cache.getQueryData<EnvironmentVariable[]>(keyOf(place))?.every((each) => each.id !== id) ?? false,
    reread: () => cache.invalidateQueries({ queryKey: keyOf(place) }),
  }
}
