import { basename } from 'node:path'
import {
  all,
  type Application,
  isNotFound,
  listApplications,
  listOrganizations,
  type Organization,
  PlatformError,
} from '@platform/sdk'
import { type Context, nameOfOrganization, slugsOf } from './context.ts'
import { CommandFailure, goOn, type Next, refuse } from './outcome.ts'
import { take } from './lists.ts'
import { findProject, isUuid, type Project } from './project.ts'

/** The application that a command is about. */
export interface Place {
  applicationId: string
  /** undefined: an API key does not see it. */
  organizationId: string | undefined
  /** As the platform shows it, where it had to be looked up. */
  application?: Application | undefined
}

const NAMES_SHOWN = 10

/** Every application in reach. */
export const readApplications = async (context: Context, organizationId?: string): Promise<Application[]> =>
  take(
    all(
      listApplications,
      await context.platform(),
      organizationId === undefined ? {} : { organizationId },
      context.call,
    ),
  )

/** Every organization of the person. */
const readOrganizations = async (context: Context): Promise<Organization[]> =>
  take(all(listOrganizations, await context.platform(), {}, context.call))

/** The claims of an access token, which its platform has checked. */
function claimsOf(token: string): Record<string, unknown> {
  try {
    return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Record<string, unknown>
  } catch {
    return {}
  }
}

/** The application of an API key, which its token names; undefined for a person's. */
export async function applicationOfKey(context: Context): Promise<string | undefined> {
  const identity = await context.identity()
  if (identity.kind === 'user') return undefined
  const { sub, client_id: clientId } = claimsOf(await (await context.platform()).token())
  // A person's token names the person, and the client that they signed in with; it is of the identity provider.
  const isKey = identity.kind === 'key' ? identity.id === clientId : (await issuerOf(context)) === identity.baseUrl
  return isKey && typeof sub === 'string' ? sub : undefined
}

const issuerOf = async (context: Context): Promise<unknown> => claimsOf(await (await context.platform()).token())['iss']

/** Which one somebody means by an id, a slug or `organization/slug`. Throws a failure that says what there is. */
function pickApplication(context: Context, applications: readonly Application[], app: string): Application {
  const matches = applications.filter(
    (each) => each.id === app.toLowerCase() || each.slug === app || slugsOf(each) === app,
  )
  const [application, other] = matches
  if (other) {
    refuse(`"${app}" is the slug of ${matches.length} applications: say which organization's`, {
      next: matches.map((each) => context.again(nameOf(each), '--app', slugsOf(each))),
    })
  }
  if (application) return application
  const names = applications.slice(0, NAMES_SHOWN).map(slugsOf)
  throw new CommandFailure(
    'not_found',
    names.length === 0
      ? `There is no application "${app}": you have none`
      : `There is no application "${app}" in your reach: expected an id, a slug or organization/slug, such as ${names.join(', ')}`,
  )
}

const FORM = /^[\w-]+(?:\/[\w-]+)?$/

/** Finds out which application is meant: by `--app`, by the key that is used, or by the link of the folder. Asks a person otherwise. */
export async function reachPlace(
  context: Context,
  { app, folder = context.world.cwd }: { app?: string | undefined; folder?: string | undefined },
): Promise<Place> {
  if (app !== undefined && !FORM.test(app)) refuse(`--app is "${app}": expected an id, a slug or organization/slug`)
  const ofKey = await applicationOfKey(context)
  if (ofKey !== undefined) return placeOfKey(context, ofKey, { app, folder })
  if (app !== undefined) {
    const application = pickApplication(context, await readApplications(context), app)
    return { applicationId: application.id, organizationId: application.organizationId, application }
  }
  const linked = await findLink(context, folder)
  if (linked) return linked
  const applications = await readApplications(context)
  // A folder below may be made anew by each build: the link stands where the person is.
  const { cwd } = context.world
  const place = `${folder}/`.startsWith(`${cwd}/`) ? cwd : folder
  const create = ['link', ...(place === cwd ? [] : [place]), '--create', nameOfFolder(place)]
  return chooseApplication(
    context,
    place,
    applications,
    goOn('create an application and link this folder to it', ...create),
  )
}

/** Asks which application a folder is of, and links it. create: what makes one, where nobody can be asked. */
export async function chooseApplication(
  context: Context,
  folder: string,
  applications: readonly Application[],
  create: Next,
): Promise<Place> {
  if (!context.isInteractive)
    context.needInput('Which application? This folder is not linked to one', [
      ...applications.slice(0, NAMES_SHOWN).map((each) => context.again(nameOf(each), '--app', slugsOf(each))),
      create,
    ])
  const { askForApplication } = await import('./choose-application.ts')
  return askForApplication(context, folder, applications)
}

const nameOf = ({ name, organization }: Application): string => `${name} of ${organization.name}`

export const nameOfFolder = (folder: string): string => basename(folder) || 'app'

async function findLink(context: Context, folder: string): Promise<Project | undefined> {
  return ((await findProject(folder)) ?? (await findProject(context.world.cwd)))?.project
}

async function placeOfKey(
  context: Context,
  applicationId: string,
  { app, folder }: { app: string | undefined; folder: string },
): Promise<Place> {
  const otherThan = (named: string, source: string) =>
    new CommandFailure(
      'not_found',
      `The API key is one of the application ${applicationId}, and ${source} names ${named}`,
      {
        hint: 'Leave it out: a key reaches its own application alone.',
      },
    )
  if (app !== undefined && app.toLowerCase() !== applicationId) {
    if (isUuid(app)) throw otherThan(app, '--app')
    const [application] = await readApplications(context).catch((error: unknown) => {
      if (error instanceof PlatformError && error.status === 403) throw otherThan(app, '--app')
      throw error
    })
    if (!application || (application.slug !== app && slugsOf(application) !== app)) throw otherThan(app, '--app')
    return { applicationId, organizationId: undefined, application }
  }
  const linked = app === undefined ? await findLink(context, folder) : undefined
  if (linked && linked.applicationId !== applicationId) throw otherThan(linked.applicationId, 'the link of this folder')
  return { applicationId, organizationId: undefined }
}

/** The organization that is meant: by `--org`, or the only one. Asks a person otherwise. */
export async function reachOrganization(context: Context, org: string | undefined): Promise<Organization> {
  const organizations = await readOrganizations(context)
  if (org !== undefined) {
    const found = organizations.find(({ id, slug }) => id === org.toLowerCase() || slug === org)
    if (found) return found
    const slugs = organizations.slice(0, NAMES_SHOWN).map(({ slug }) => slug)
    throw new CommandFailure(
      'not_found',
      `There is no organization "${org}" in your reach: expected ${slugs.length === 0 ? 'one, and you have none' : slugs.join(', ')}`,
    )
  }
  const [only, ...others] = organizations
  if (only && others.length === 0) return only
  if (!only)
    throw new CommandFailure('input_needed', 'You have no organization', {
      next: [goOn('create one', 'orgs', 'create', 'Acme')],
    })
  if (!context.isInteractive)
    context.needInput(
      'Which organization?',
      organizations.slice(0, NAMES_SHOWN).map(({ name, slug }) => context.again(name, '--org', slug)),
    )
  const { askToChoose } = await import('./ask.ts')
  const choices = organizations.map((each) => ({ value: each.id, label: nameOfOrganization(each) }))
  const chosen = await askToChoose(context, 'Which organization?', choices)
  return organizations.find(({ id }) => id === chosen) ?? only
}

/** Throws a failure unless the text is a UUID. what: such as `deployment`. */
export const checkId = (id: string, what: string): string =>
  isUuid(id) ? id.toLowerCase() : refuse(`"${id}" is not the id of a ${what}: expected a UUID`)

/** Resolves to undefined if it does not exist. */
export const unlessMissing = <T>(work: Promise<T>): Promise<T | undefined> =>
  work.catch((error: unknown) => {
    if (isNotFound(error)) return undefined
    throw error
  })

/** Resolves to undefined if the credential may not know. */
export const unlessForbidden = <T>(work: Promise<T>): Promise<T | undefined> =>
  work.catch((error: unknown) => {
    if (error instanceof PlatformError && error.status === 403) return undefined
    throw error
  })
