import { contentTypeOf } from '@platform/build-output/content-type'
import type { OutputManifest, PrerenderRules } from '@platform/build-output/manifest'
import type { HeaderPairs } from '@platform/build-output/router'
import type { deploymentFallbacks } from '../../deploy/artifacts/table.ts'
import type { Fallback } from '../isr/pages.ts'
import { DeployedFile } from './deployed-file.ts'
import { keptHeaders, lifetimeOf, tagsOf } from './kept-answer.ts'

/** A Function whose pages are stored. */
export interface DeployedPrerender {
  rules: PrerenderRules
  /** What its build left to be shown first. */
  fallback: (Fallback & { file: DeployedFile; status: number; headers: HeaderPairs; builtAt: number }) | undefined
  /** The Functions whose pages are regenerated together with its own, itself included. */
  group: readonly string[]
}

/** builtAt: from when the fallbacks' lifetimes count. */
export function describePrerenders(
  prerenders: NonNullable<OutputManifest['prerenders']>,
  fallbacks: readonly (typeof deploymentFallbacks.$inferSelect)[],
  builtAt: Date,
): ReadonlyMap<string, DeployedPrerender> {
  const groups = Map.groupBy(Object.keys(prerenders), (path) => prerenders[path]?.group)
  const files = new Map(fallbacks.map((row) => [row.path, row]))
  return new Map(
    Object.entries(prerenders).map(([path, rules]) => {
      const row = files.get(rules.fallback ?? '')
      const typed = rules.initialHeaders.find(([name]) => name === 'content-type')?.[1]
      const contentType = typed ?? contentTypeOf(row?.path ?? path)
      const fallback = row && {
        ...lifetimeOf(rules, [], builtAt.getTime()),
        tags: tagsOf(rules.initialHeaders),
        bytes: row.bytes,
        builtAt: builtAt.getTime(),
        file: new DeployedFile({ ...row, contentType }, builtAt),
        status: rules.initialStatus ?? 200,
        headers: keptHeaders(
          typed === undefined ? [...rules.initialHeaders, ['content-type', contentType]] : rules.initialHeaders,
        ),
      }
      const group = rules.group === undefined ? [path] : (groups.get(rules.group) ?? [path])
      return [path, { rules, fallback, group }]
    }),
  )
}
