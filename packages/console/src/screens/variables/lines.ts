import type { EnvironmentVariable } from '@platform/sdk'
import type { TerminalLine } from '../../command/terminal.ts'
import { type Environment, type Layer, layerOf, type Place } from './layers.ts'

const layerWords = (layer: Layer): string[] => {
  if (layer === 'application') return []
  return layer === 'organization' ? ['--layer', 'organization'] : ['--env', layer]
}

const listPath = ({ organization, application }: Place, layer: Layer): string =>
  layer === 'organization' || !application
    ? `/organizations/${organization.id}/env-vars`
    : `/applications/${application.id}/env-vars`

const variablePath = (place: Place, variable: EnvironmentVariable): string =>
  `${listPath(place, layerOf(variable))}/${variable.id}`

/** How a terminal reads what a page shows. The command line knows an organization by its applications alone. */
export function listLine(place: Place, environment?: Environment): TerminalLine {
  const { path, application } = place
  if (path === undefined) return { method: 'GET', path: listPath(place, 'organization') }
  const which = application ? (environment ? ['--env', environment] : []) : ['--layer', 'organization']
  return { words: ['env', 'ls', '--app', path, ...which] }
}

/** How a terminal writes a variable. No value is in it: the page covers it, or has forgotten it. */
export function setLine(
  place: Place,
  layer: Layer,
  { key, sensitive }: Pick<EnvironmentVariable, 'key' | 'sensitive'>,
): TerminalLine {
  const { path } = place
  if (path === undefined)
    return { method: 'POST', path: listPath(place, layer), body: { key, value: '<value>', sensitive } }
  const words = ['env', 'set', ...(sensitive ? ['--sensitive'] : []), '--app', path, ...layerWords(layer)]
  return { words, names: [key], isValuePiped: true }
}

/** How a terminal changes a variable. The command line has no word that makes a sensitive one readable: it leaves it as it is. */
export function updateLine(place: Place, changed: EnvironmentVariable, isMadeReadable: boolean): TerminalLine {
  const { sensitive } = changed
  return place.path === undefined || isMadeReadable
    ? { method: 'PATCH', path: variablePath(place, changed), body: { value: '<value>', sensitive } }
    : setLine(place, layerOf(changed), changed)
}

export function deleteLine(place: Place, variable: EnvironmentVariable): TerminalLine {
  const { path } = place
  if (path === undefined) return { method: 'DELETE', path: variablePath(place, variable) }
  return { words: ['env', 'rm', '--app', path, ...layerWords(layerOf(variable))], names: [variable.key] }
}

/** How a terminal writes a pasted file; undefined where the command line has no word for it. */
export const pushLine = ({ path }: Place, layer: Layer): TerminalLine | undefined =>
  path === undefined || layer === 'organization' || layer === 'application'
    ? undefined
    : { words: ['env', 'push', '.env', '--app', path, '--env', layer] }
