import { constants } from 'node:fs'
import { lstat, mkdir, open, rm, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { refuse, goOn } from './outcome.ts'

/** The application that a folder belongs to. It names no platform: a folder from elsewhere cannot say where requests go. */
export interface Project {
  organizationId: string
  applicationId: string
}

const FOLDER = '.platform'
const NAME = `${FOLDER}/project.json`
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const BYTES_MAX = 4_096

export const isUuid = (text: string): boolean => UUID.test(text)

/** Throws the failure of a file that is not a link. isRemoved: whether `unlink` takes it away. */
function refuseProject(folder: string, found: string, isRemoved = true): never {
  const expected = '{ "organizationId", "applicationId" } in a file of yours'
  return refuse(`${join(folder, NAME)} is not a link to an application: expected ${expected}, found ${found}`, {
    hint: 'Remove it, and link the folder again.',
    next: isRemoved ? [goOn('remove the link', 'unlink', folder)] : [],
  })
}

function parseProject(text: string, folder: string): Project {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return refuseProject(folder, 'no JSON')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return refuseProject(folder, 'another value')
  const { organizationId, applicationId, ...unknown } = value as Record<string, unknown>
  const [name] = Object.keys(unknown)
  if (name !== undefined) return refuseProject(folder, `the member ${JSON.stringify(name)}`)
  if (typeof applicationId !== 'string' || !isUuid(applicationId))
    return refuseProject(folder, 'an applicationId that is not a UUID')
  if (typeof organizationId !== 'string' || !isUuid(organizationId))
    return refuseProject(folder, 'an organizationId that is not a UUID')
  return { organizationId, applicationId }
}

/** Throws a failure if the folder of the link is itself a link, and what is in it lies elsewhere. */
async function checkPlace(folder: string): Promise<void> {
  const stats = await lstat(join(folder, FOLDER)).catch(() => undefined)
  if (stats?.isSymbolicLink())
    refuse(`${join(folder, FOLDER)} is a link, which is not followed: expected a folder`, { hint: 'Remove it.' })
}

/** The link of one folder; undefined if it has none. */
async function readProject(folder: string): Promise<Project | undefined> {
  const missing = (error: NodeJS.ErrnoException): undefined => {
    if (error.code === 'ELOOP') refuseProject(folder, 'a symbolic link')
    if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR' && error.code !== 'EACCES') throw error
  }
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const file = await open(join(folder, NAME), flags).catch(missing)
  if (!file) return undefined
  try {
    await checkPlace(folder)
    const stats = await file.stat()
    const { size, uid } = stats
    // In a folder that others may write to, such as /tmp, it would be theirs to say what is deployed where.
    if (process.geteuid && uid !== process.geteuid()) refuseProject(folder, `one of user ${uid}`, false)
    if (!stats.isFile()) refuseProject(folder, 'no file', false)
    if (size > BYTES_MAX) refuseProject(folder, `${size} bytes`)
    return parseProject(await file.readFile('utf8'), folder)
  } finally {
    await file.close()
  }
}

/** The link of a folder, or of the nearest one above it. */
export async function findProject(folder: string): Promise<{ project: Project; folder: string } | undefined> {
  for (let place = resolve(folder); ; place = dirname(place)) {
    const project = await readProject(place)
    if (project) return { project, folder: place }
    if (place === dirname(place)) return undefined
  }
}

const LINE = '/.platform/'

/** Links a folder, and has git ignore the link. Returns the files that it wrote; none the second time. */
export async function writeProject(folder: string, project: Project): Promise<string[]> {
  const path = join(folder, NAME)
  const known = await readProject(folder).catch(() => undefined)
  const written: string[] = []
  if (known?.applicationId !== project.applicationId || known.organizationId !== project.organizationId) {
    await checkPlace(folder)
    await mkdir(join(folder, FOLDER), { recursive: true })
    await rm(path, { force: true })
    await writeFile(path, `${JSON.stringify(project, null, 2)}\n`, { flag: 'wx' })
    written.push(path)
  }
  const ignore = join(folder, '.gitignore')
  return (await addLine(ignore)) ? [...written, ignore] : written
}

/** Adds the link to a .gitignore, whose other lines stay as they are. Through no link. False: it is there, or cannot be added. */
async function addLine(path: string): Promise<boolean> {
  const { O_RDWR, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants
  const file = await open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o644).catch(() => undefined)
  if (!file) return false
  try {
    if (!(await file.stat()).isFile()) return false
    const text = await file.readFile('latin1')
    if (text.split(/\r?\n/).some((line) => /^\/?\.platform\/?$/.test(line.trim()))) return false
    await file.appendFile(`${text === '' || text.endsWith('\n') ? '' : '\n'}${LINE}\n`)
    return true
  } finally {
    await file.close()
  }
}

/** Removes the link of a folder. False: it has none. */
export async function removeProject(folder: string): Promise<boolean> {
  await checkPlace(folder)
  const path = join(folder, NAME)
  const isThere = (await lstat(path).catch(() => undefined)) !== undefined
  await rm(path, { force: true })
  return isThere
}
