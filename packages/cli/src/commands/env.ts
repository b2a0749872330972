import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { lstat, open, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import {
  createApplicationVariable,
  createOrganizationVariable,
  deleteApplicationVariable,
  deleteOrganizationVariable,
  type EnvironmentVariable,
  isConflict,
  listApplicationVariables,
  listOrganizationVariables,
  pullVariables,
  updateApplicationVariable,
  updateOrganizationVariable,
} from '@platform/sdk'
import { DotenvError, parseDotenv, problemOfKey, problemOfValue, writeDotenv } from '@platform/sdk/dotenv'
import type { Context, EnvironmentSlug } from '../context.ts'
import { CommandFailure, type Outcome, refuse, goOn } from '../outcome.ts'
import { type Place, reachPlace, unlessMissing } from '../places.ts'
import { readStdin } from '../stdin.ts'
import { inOneLine, tableOf } from '../visible-text.ts'

type LayerName = EnvironmentVariable['scope']

interface Of {
  app?: string | undefined
  env?: EnvironmentSlug | undefined
  layer?: LayerName | undefined
}

const FILE = '.env.local'
/** The first line of what `pull` writes. */
const MARK = '# Written by `platform env pull`:'

/** One layer of variables: where they are listed, created, changed and deleted. */
interface Layer {
  name: LayerName
  /** For people, such as `the preview environment`. */
  title: string
  list(): Promise<EnvironmentVariable[]>
  create(body: { key: string; value: string; sensitive: boolean }): Promise<EnvironmentVariable>
  update(varId: string, body: { value: string; sensitive?: boolean }): Promise<EnvironmentVariable>
  remove(varId: string): Promise<unknown>
}

function checkKey(key: string): string {
  const problem = problemOfKey(key)
  return problem === undefined ? key : refuse(problem)
}

function checkValue(key: string, value: string): string {
  const problem = problemOfValue(key, value)
  return problem === undefined ? value : refuse(problem)
}

/** The layer that the flags name. */
function nameOfLayer({ env, layer }: Pick<Of, 'env' | 'layer'>): LayerName {
  const name = layer ?? (env ? 'environment' : 'application')
  if (name !== 'environment' && env !== undefined)
    refuse(`--layer ${name} is of all environments, and --env names one: leave out one of them`)
  if (name === 'environment' && env === undefined) refuse('--layer environment needs --env production or --env preview')
  return name
}

async function layerOf(context: Context, place: Place, of: Pick<Of, 'env' | 'layer'>): Promise<Layer> {
  const { env } = of
  const name = nameOfLayer(of)
  const platform = await context.platform()
  const { call } = context
  if (name === 'organization') {
    const id = place.organizationId ?? refuse('An API key does not reach the variables of its organization')
    return {
      name,
      title: 'the organization',
      list: async () => (await listOrganizationVariables(platform, { id }, call)).items,
      create: (body) => createOrganizationVariable(platform, { id, body }, call),
      update: (varId, body) => updateOrganizationVariable(platform, { id, varId, body }, call),
      remove: (varId) => deleteOrganizationVariable(platform, { id, varId }, call),
    }
  }
  const { applicationId: id } = place
  return {
    name,
    title: name === 'environment' ? `the environment ${env}` : 'the application',
    list: async () =>
      (await listApplicationVariables(platform, { id }, call)).items.filter(
        (each) => each.scope === name && (name !== 'environment' || slugOf(each) === env),
      ),
    create: (body) =>
      createApplicationVariable(platform, { id, body: { ...body, ...(env && { environment: env }) } }, call),
    update: (varId, body) => updateApplicationVariable(platform, { id, varId, body }, call),
    remove: (varId) => deleteApplicationVariable(platform, { id, varId }, call),
  }
}

/** The environment of a variable. Its name is the slug with a capital letter; the slug itself takes another scope to see. */
const slugOf = ({ environmentName }: EnvironmentVariable): string | undefined => environmentName?.toLowerCase()

/** Variables of all layers, or of one. */
export async function listOf(context: Context, { app, env, layer }: Of): Promise<Outcome> {
  const place = await reachPlace(context, { app })
  const platform = await context.platform()
  const { applicationId: id } = place
  const { items } = await listApplicationVariables(platform, { id }, context.call)
  const ofOrganization =
    place.organizationId === undefined || items.some(({ scope }) => scope === 'organization')
      ? []
      : (await listOrganizationVariables(platform, { id: place.organizationId }, context.call)).items
  const variables = [...items, ...ofOrganization].filter(
    (each) =>
      (layer === undefined || each.scope === layer) &&
      (env === undefined || each.scope !== 'environment' || slugOf(each) === env),
  )
  const rows = variables
    .toSorted((a, b) => (a.key < b.key ? -1 : 1))
    .map((each) => [each.key, slugOf(each) ?? each.scope, each.value === null ? '(sensitive)' : shortened(each.value)])
  return {
    data: variables,
    text: rows.length === 0 ? 'There is no variable' : tableOf(['KEY', 'LAYER', 'VALUE'], rows),
  }
}

const shortened = (value: string): string => {
  const line = inOneLine(value)
  return line.length > 60 ? `${line.slice(0, 59)}…` : line
}

interface SetOptions extends Of {
  key: string
  value?: string | undefined
  fromFile?: string | undefined
  sensitive: boolean
}

/** Creates a variable, or changes the one that is there. */
export async function set(context: Context, options: SetOptions): Promise<Outcome> {
  const [, named, inline] = /^([^=]+)=(.*)$/s.exec(options.value === undefined ? options.key : '') ?? []
  const key = checkKey(named ?? options.key)
  nameOfLayer(options)
  const value = checkValue(key, await valueOf(context, { ...options, key, value: options.value ?? inline }))
  const place = await reachPlace(context, { app: options.app })
  const layer = await layerOf(context, place, options)
  const variable = await upsert(layer, await layer.list(), { key, value, isSensitive: options.sensitive })
  return { data: variable, text: `Set ${key} in ${layer.title}. It takes effect with the next deployment` }
}

async function valueOf(context: Context, { key, value, fromFile, sensitive }: SetOptions): Promise<string> {
  const { world, output } = context
  if (value !== undefined) {
    if (fromFile !== undefined) refuse('The value is given twice: once in the command and once by --from-file')
    // The history of the shell keeps it, and every process of the machine can read it.
    if (sensitive)
      refuse(`A sensitive value does not belong into the command: give it on stdin or by --from-file`, {
        hint: 'printf \'%s\' "$VALUE" | platform env set NAME --sensitive takes it from stdin.',
      })
    return value
  }
  if (fromFile !== undefined)
    return decoded(
      `The value of ${key}`,
      await readFile(resolve(world.cwd, fromFile)).catch((error: Error) =>
        refuse(`--from-file cannot be read: ${error.message}`),
      ),
    )
  if (context.isInteractive) {
    const { askForSecret } = await import('../ask.ts')
    return askForSecret(context, `The value of ${key}`)
  }
  if (world.stdin.isTTY === true)
    context.needInput(`The value of ${key} is missing: give it on stdin or by --from-file`, [])
  const bytes = await readStdin(context)
  const text = decoded(`The value of ${key}`, bytes)
  if (text === '')
    context.needInput(`The value of ${key} is missing: stdin was empty`, [context.again('set it to nothing', '')])
  if (text.endsWith('\n')) output.warn(`The value of ${key} ends in a line break. printf '%s' writes none`)
  return text
}

/** what: such as `The value of PASSWORD`. */
function decoded(what: string, bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return refuse(`${what} is not UTF-8`)
  }
}

/** Writes a variable to a layer, whether or not it is there. listed: the layer as it was. isSensitive: false leaves one sensitive that is. */
async function upsert(
  layer: Layer,
  listed: readonly EnvironmentVariable[],
  { key, value, isSensitive }: { key: string; value: string; isSensitive: boolean },
): Promise<EnvironmentVariable> {
  for (let isSecond = false; ; isSecond = true) {
    const known = (isSecond ? await layer.list() : listed).find((each) => each.key === key)
    try {
      if (!known) return await layer.create({ key, value, sensitive: isSensitive })
      const changed = await unlessMissing(layer.update(known.id, { value, ...(isSensitive && { sensitive: true }) }))
      if (changed) return changed
    } catch (error) {
      // Somebody else created it meanwhile.
      if (known || !isConflict(error) || isSecond) throw error
    }
  }
}

/** Deletes a variable of one layer. */
export async function remove(
  context: Context,
  { key, app, env, layer: named }: Of & { key: string },
): Promise<Outcome> {
  checkKey(key)
  nameOfLayer({ env, layer: named })
  const place = await reachPlace(context, { app })
  const layer = await layerOf(context, place, { env, layer: named })
  const known = (await layer.list()).find((each) => each.key === key)
  if (!known)
    throw new CommandFailure('not_found', `There is no ${key} in ${layer.title}`, {
      next: [goOn('see all', 'env', 'ls', ...(app === undefined ? [] : ['--app', app]))],
    })
  await context.confirm(`Delete ${key} of ${layer.title}?`)
  await layer.remove(known.id)
  return { data: { key, layer: layer.name, deleted: true }, text: `Deleted ${key} of ${layer.title}` }
}

/** Writes a file for its owner alone, whole, and through no link. */
async function writePrivate(path: string, text: string): Promise<void> {
  // A name that no deployment sends, should this process be killed.
  const draft = join(dirname(path), `.env.${randomBytes(8).toString('hex')}.new`)
  const { O_WRONLY, O_CREAT, O_EXCL } = constants
  const file = await open(draft, O_WRONLY | O_CREAT | O_EXCL, 0o600).catch((error: Error) =>
    refuse(`${path} cannot be written: ${error.message}`),
  )
  try {
    try {
      await file.writeFile(text)
    } finally {
      await file.close()
    }
    // Whatever lies there by now, a link too, is replaced and not written through.
    await rename(draft, path)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
}

/** Makes sure that a file may be replaced which somebody wrote by hand. One of an earlier pull may. */
async function confirmLoss(
  context: Context,
  path: string,
  pulled: readonly { key: string; value: string }[],
): Promise<void> {
  const stats = await lstat(path).catch(() => undefined)
  if (stats?.isSymbolicLink()) refuse(`${path} is a link, which is not followed`)
  if (stats && !stats.isFile()) refuse(`${path} is not a file`)
  const text = await readFile(path, 'utf8').catch(() => '')
  if (text.trim() === '' || text.startsWith(MARK)) return
  const kept = new Map(pulled.map(({ key, value }) => [key, value]))
  let lost: string[] | undefined
  try {
    lost = [...parseDotenv(text)].flatMap(([key, value]) => (kept.get(key) === value ? [] : [key]))
  } catch {
    // What cannot be read is lost as well.
  }
  if (lost?.length === 0) return
  await context.confirm(
    `${path} was not written by a pull${lost ? `, and ${lost.join(', ')} would be lost` : ''}. Replace it?`,
  )
}

/** Writes the merged variables of an environment into a file. */
export async function pull(
  context: Context,
  { file = FILE, app, env = 'preview' }: Of & { file?: string | undefined },
): Promise<Outcome> {
  const { applicationId } = await reachPlace(context, { app })
  const { items, omittedSensitive } = await pullVariables(
    await context.platform(),
    { id: applicationId, environment: env },
    context.call,
  )
  const path = resolve(context.world.cwd, file)
  await confirmLoss(context, path, items)
  await writePrivate(path, `${MARK} ${env}\n${writeDotenv(items)}`)
  const text = [`Wrote ${items.length} variables of ${env} to ${path}`]
  if (omittedSensitive > 0) text.push(`${omittedSensitive} sensitive ones are missing: their values are never shown`)
  return { data: { environment: env, file: path, count: items.length, omittedSensitive }, text: text.join('\n') }
}

interface Difference {
  created: string[]
  changed: string[]
  unchanged: number
  deleted: string[]
}

/** Sets the variables of a file in an environment. What the file does not have stays, unless --prune deletes it. */
export async function push(
  context: Context,
  {
    file = FILE,
    app,
    env = 'preview',
    prune,
    dryRun,
  }: Of & { file?: string | undefined; prune: boolean; dryRun: boolean },
): Promise<Outcome> {
  const path = resolve(context.world.cwd, file)
  const wanted = await readVariables(path)
  const place = await reachPlace(context, { app })
  const layer = await layerOf(context, place, { env })
  const platform = await context.platform()
  const [known, merged] = await Promise.all([
    layer.list(),
    pullVariables(platform, { id: place.applicationId, environment: env }, context.call).then(
      ({ items }) => new Map(items.map((each) => [each.key, each.value])),
    ),
  ])
  const difference: Difference = { created: [], changed: [], unchanged: 0, deleted: [] }
  for (const [key, value] of wanted)
    // What comes from another layer with that value need not be written again.
    if (merged.get(key) === value) difference.unchanged++
    else difference[known.some((each) => each.key === key) ? 'changed' : 'created'].push(key)
  // A sensitive one is in no file that was pulled: its absence says nothing.
  const gone = prune ? known.filter((each) => !each.sensitive && !wanted.has(each.key)) : []
  difference.deleted = gone.map(({ key }) => key)
  const data = { environment: env, file: path, ...difference, dryRun }
  const text = differenceText(difference, dryRun)
  if (dryRun) return { data, text }
  if (gone.length > 0) await context.confirm(`Delete ${difference.deleted.join(', ')} of ${layer.title}?`)
  for (const key of [...difference.created, ...difference.changed])
    await upsert(layer, known, { key, value: wanted.get(key) ?? '', isSensitive: false })
  for (const { id } of gone) await layer.remove(id)
  return { data, text: `${text}\nThey take effect with the next deployment` }
}

function differenceText({ created, changed, unchanged, deleted }: Difference, dryRun: boolean): string {
  const lines = [
    ...created.map((key) => `+ ${key}`),
    ...changed.map((key) => `~ ${key}`),
    ...deleted.map((key) => `- ${key}`),
  ]
  return [
    ...lines,
    `${created.length} created, ${changed.length} changed, ${deleted.length} deleted, ${unchanged} unchanged${dryRun ? ': nothing was sent' : ''}`,
  ].join('\n')
}

async function readVariables(path: string): Promise<Map<string, string>> {
  const bytes = await readFile(path).catch((error: Error) => refuse(`${path} cannot be read: ${error.message}`))
  try {
    const variables = parseDotenv(decoded(path, bytes))
    for (const [key, value] of variables) checkValue(checkKey(key), value)
    return variables
  } catch (error) {
    if (error instanceof DotenvError) refuse(`${path} is not a file of variables. ${error.message}`)
    throw error
  }
}
