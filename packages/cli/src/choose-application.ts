import { type Application, createApplication } from '@platform/sdk'
import { askForText, askToChoose } from './ask.ts'
import { type Context, slugsOf } from './context.ts'
import { nameOfFolder, type Place, reachOrganization } from './places.ts'
import { writeProject } from './project.ts'

const NEW = ''

export async function makeApplication(context: Context, { name, org }: { name: string; org: string | undefined }) {
  const organization = await reachOrganization(context, org)
  return createApplication(await context.platform(), { body: { organizationId: organization.id, name } }, context.call)
}

/** Asks which application a folder belongs to, and links it. */
export async function askForApplication(
  context: Context,
  folder: string,
  applications: readonly Application[],
): Promise<Place> {
  const choices = applications.map((each) => ({ value: each.id, label: `${each.name} (${slugsOf(each)})` }))
  const chosen = await askToChoose(context, 'Which application is this folder of?', [
    ...choices,
    { value: NEW, label: 'A new one' },
  ])
  let application = applications.find(({ id }) => id === chosen)
  if (!application) {
    const name = await askForText(context, 'What is it called?', nameOfFolder(folder))
    application = await makeApplication(context, { name, org: undefined })
  }
  const { id: applicationId, organizationId } = application
  for (const path of await writeProject(folder, { organizationId, applicationId })) context.output.note(`Wrote ${path}`)
  return { applicationId, organizationId, application }
}
