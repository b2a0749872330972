import { z } from '@hono/zod-openapi'
import { endpoint } from '../deps.ts'
import { id, instant, pathId, shown, text } from '../../../http/fields.ts'
import { asWholeSet, page } from '../../../http/pages.ts'
import { reachApplication, reachEnvironmentOf } from '../applications/reach.ts'
import { reachOrganization } from '../organizations/reach.ts'
import {
  createApplicationVariable,
  createOrganizationVariable,
  deleteVariable,
  listVariables,
  ownerFor,
  pullVariables,
  updateVariable,
} from './env-vars.ts'

const tag = 'Environment variables'
const VALUE_BYTES_MAX = 65_536

const layer = z.enum(['organization', 'application', 'environment'])
const key = z
  .string()
  .regex(
    /^[A-Za-z_][A-Za-z0-9_]{0,254}$/,
    'Expected a letter or underscore, then letters, digits and underscores, 255 at most',
  )
  .openapi({ example: 'DATABASE_URL' })
const value = text(VALUE_BYTES_MAX).openapi({ example: 'postgres://db.internal/app' })
const environment = text(64).openapi({ example: 'production', description: 'Slug or UUID of an environment.' })

const Variable = z
  .object({
    id,
    key,
    value: shown('postgres://db.internal/app')
      .nullable()
      .openapi({ description: 'null if the variable is sensitive.' }),
    sensitive: z.boolean(),
    scope: layer,
    source: layer,
    environmentId: id.nullable(),
    environmentName: shown('Production').nullable(),
    createdAt: instant,
    updatedAt: instant,
  })
  .openapi('EnvironmentVariable')

const PulledVariables = z
  .object({
    items: z.array(z.object({ key, value: shown('postgres://db.internal/app'), source: layer })),
    total: z.number().int().openapi({ example: 1 }),
    omittedSensitive: z
      .number()
      .int()
      .openapi({ example: 0, description: 'Number of keys left out because their value is sensitive.' }),
  })
  .openapi('PulledVariables')

const variable = { key, value, sensitive: z.boolean().default(false) }
const CreateOrganizationVariable = z.strictObject({ ...variable, scope: z.literal('organization').optional() })
const CreateApplicationVariable = z
  .strictObject({
    ...variable,
    environment: environment.optional(),
    environmentId: environment.optional(),
    scope: z.enum(['application', 'environment']).optional(),
  })
  .openapi({ example: { key: 'LOG_LEVEL', value: 'debug', environment: 'production' } })
const UpdateVariable = z.strictObject({
  key: key.optional(),
  value: value.optional(),
  sensitive: z.boolean().optional(),
})

const ofOrganization = { id: pathId('Organization') }
const ofApplication = { id: pathId('Application') }
const oneOfOrganization = { ...ofOrganization, varId: pathId('Variable') }
const oneOfApplication = { ...ofApplication, varId: pathId('Variable') }

export const envVarEndpoints = [
  endpoint({
    operation: 'listOrganizationVariables',
    on: 'GET /organizations/{id}/env-vars',
    spec: 'A §4 Organizations',
    tag,
    summary: 'List organization variables',
    description: 'Variables of the organization’s own layer. Sensitive values are null.',
    actor: 'any',
    scope: 'network:env_vars:read',
    params: ofOrganization,
    reach: (call) => reachOrganization(call, call.params.id),
    returns: [200, page(Variable)],
    handle: async ({ deps, target }) =>
      asWholeSet(await listVariables(deps, { kind: 'organization', organization: target })),
  }),
  endpoint({
    operation: 'createOrganizationVariable',
    on: 'POST /organizations/{id}/env-vars',
    spec: 'A §4 Organizations',
    tag,
    summary: 'Create an organization variable',
    description:
      'Applies to every application of the organization unless a narrower layer overrides it. 409 if this layer has the key already. Needs the role OWNER or ADMIN.',
    actor: 'any',
    scope: 'network:env_vars:write',
    params: ofOrganization,
    body: CreateOrganizationVariable,
    reach: (call) => reachOrganization(call, call.params.id, 'admin'),
    returns: [201, Variable],
    fails: [409],
    handle: ({ deps, actor, target, body }) => createOrganizationVariable(deps, actor, target, body),
  }),
  endpoint({
    operation: 'updateOrganizationVariable',
    on: 'PATCH /organizations/{id}/env-vars/{varId}',
    spec: 'A §4 Organizations',
    tag,
    summary: 'Update an organization variable',
    description:
      'Changes only the fields that are sent. A sensitive variable can be made readable only together with a new value. Needs the role OWNER or ADMIN.',
    actor: 'any',
    scope: 'network:env_vars:write',
    params: oneOfOrganization,
    body: UpdateVariable,
    reach: (call) => reachOrganization(call, call.params.id, 'admin'),
    returns: [200, Variable],
    fails: [409],
    handle: ({ deps, actor, target, params, body }) =>
      updateVariable(deps, actor, { kind: 'organization', organization: target }, params.varId, body),
  }),
  endpoint({
    operation: 'deleteOrganizationVariable',
    on: 'DELETE /organizations/{id}/env-vars/{varId}',
    spec: 'A §4 Organizations',
    tag,
    summary: 'Delete an organization variable',
    description: 'Cannot be undone. Needs the role OWNER or ADMIN.',
    actor: 'any',
    scope: 'network:env_vars:delete',
    params: oneOfOrganization,
    reach: (call) => reachOrganization(call, call.params.id, 'admin'),
    returns: [204],
    handle: ({ deps, actor, target, params }) =>
      deleteVariable(deps, actor, { kind: 'organization', organization: target }, params.varId),
  }),
  endpoint({
    operation: 'listApplicationVariables',
    on: 'GET /applications/{id}/env-vars',
    spec: 'A §4 Applications',
    tag,
    summary: 'List application variables',
    description:
      'Variables of the application’s layer and of its environments; a Function sees only its own environment’s. Sensitive values are null.',
    actor: 'any',
    scope: 'network:env_vars:read',
    params: ofApplication,
    reach: (call) => reachApplication(call, call.params.id),
    returns: [200, page(Variable)],
    handle: async ({ deps, actor, target }) => asWholeSet(await listVariables(deps, ownerFor(actor, target))),
  }),
  endpoint({
    operation: 'pullVariables',
    on: 'GET /applications/{id}/env-vars/pull',
    spec: 'A §4 Applications',
    tag,
    summary: 'Pull variables',
    description:
      'The variables that a process in the environment sees: environment over application over organization; without `environment`, the latter two. A Function always gets its own environment. Keys whose effective value is sensitive are left out and counted in `omittedSensitive`.',
    actor: 'any',
    scope: 'network:env_vars:read',
    params: ofApplication,
    query: z.object({ environment: environment.optional() }),
    async reach(call) {
      const application = await reachApplication(call, call.params.id)
      const { environment: reference } = call.query
      const isNamed = reference !== undefined || call.actor.kind === 'function'
      const environment = isNamed ? await reachEnvironmentOf(call, application, reference) : undefined
      return { application, environment }
    },
    returns: [200, PulledVariables],
    handle: ({ deps, target: { application, environment } }) => pullVariables(deps, application, environment?.id),
  }),
  endpoint({
    operation: 'createApplicationVariable',
    on: 'POST /applications/{id}/env-vars',
    spec: 'A §4 Applications',
    tag,
    summary: 'Create an application variable',
    description:
      'Goes to the application’s layer, or to the environment that `environment` or `environmentId` names. 409 if that layer has the key already.',
    actor: 'any',
    scope: 'network:env_vars:write',
    params: ofApplication,
    body: CreateApplicationVariable,
    reach: (call) => reachApplication(call, call.params.id),
    returns: [201, Variable],
    fails: [409],
    handle: ({ deps, actor, target, body }) => createApplicationVariable(deps, actor, target, body),
  }),
  endpoint({
    operation: 'updateApplicationVariable',
    on: 'PATCH /applications/{id}/env-vars/{varId}',
    spec: 'A §4 Applications',
    tag,
    summary: 'Update an application variable',
    description:
      'Changes only the fields that are sent. A sensitive variable can be made readable only together with a new value.',
    actor: 'any',
    scope: 'network:env_vars:write',
    params: oneOfApplication,
    body: UpdateVariable,
    reach: (call) => reachApplication(call, call.params.id),
    returns: [200, Variable],
    fails: [409],
    handle: ({ deps, actor, target, params, body }) =>
      updateVariable(deps, actor, ownerFor(actor, target), params.varId, body),
  }),
  endpoint({
    operation: 'deleteApplicationVariable',
    on: 'DELETE /applications/{id}/env-vars/{varId}',
    spec: 'A §4 Applications',
    tag,
    summary: 'Delete an application variable',
    description: 'Cannot be undone.',
    actor: 'any',
    scope: 'network:env_vars:delete',
    params: oneOfApplication,
    reach: (call) => reachApplication(call, call.params.id),
    returns: [204],
    handle: ({ deps, actor, target, params }) => deleteVariable(deps, actor, ownerFor(actor, target), params.varId),
  }),
]
