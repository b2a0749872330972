import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { makeApplication } from '../choose-application.ts'
import { type Context, slugsOf } from '../context.ts'
import { goOn, type Outcome, refuse } from '../outcome.ts'
import { applicationOfKey, chooseApplication, nameOfFolder, reachPlace, readApplications } from '../places.ts'
import { removeProject, writeProject } from '../project.ts'

/** The folder that an argument names. Throws a failure unless it is one. */
export async function checkFolder({ world }: Context, path = '.'): Promise<string> {
  const folder = resolve(world.cwd, path)
  const stats = await stat(folder).catch(() => undefined)
  return stats?.isDirectory()
    ? folder
    : refuse(`"${path}" is not a folder: ${stats ? 'it is a file' : 'there is none of that name'}`)
}

interface LinkOptions {
  folder?: string | undefined
  app?: string | undefined
  create?: string | undefined
  org?: string | undefined
}

/** Links a folder to an application. Twice is once. */
export async function link(context: Context, { folder: path, app, create, org }: LinkOptions): Promise<Outcome> {
  const folder = await checkFolder(context, path)
  if (app !== undefined && create !== undefined)
    refuse('--app names an application that is there, and --create makes one: give one of them')
  if (create !== undefined) {
    const application = await makeApplication(context, { name: create, org })
    return linked(folder, application.organizationId, application.id, slugsOf(application))
  }
  // This is about a new link: the present one does not answer it.
  const place =
    app === undefined && (await applicationOfKey(context)) === undefined
      ? await chooseApplication(
          context,
          folder,
          await readApplications(context),
          context.again('create one', '--create', nameOfFolder(folder)),
        )
      : await reachPlace(context, { app, folder })
  const application =
    place.application ?? (await readApplications(context)).find(({ id }) => id === place.applicationId)
  if (!application) refuse(`The application ${place.applicationId} is not in reach`)
  return linked(folder, application.organizationId, application.id, slugsOf(application))
}

async function linked(folder: string, organizationId: string, applicationId: string, name: string): Promise<Outcome> {
  const files = await writeProject(folder, { organizationId, applicationId })
  return {
    data: { organizationId, applicationId, files },
    text: [`Linked ${folder} to ${name}`, ...files.map((path) => `Wrote ${path}`)].join('\n'),
    next: [goOn('deploy it', 'deploy')],
  }
}

/** Removes the link of a folder. */
export async function unlink(context: Context, path: string | undefined): Promise<Outcome> {
  const folder = await checkFolder(context, path)
  const wasLinked = await removeProject(folder)
  return { data: { folder, wasLinked }, text: wasLinked ? `Removed the link of ${folder}` : `${folder} was not linked` }
}
