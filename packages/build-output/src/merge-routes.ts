import type { Phase, Route } from './manifest.ts'

type Place = Phase | 'first'

/** Groups routes by the phase that they stand in. */
function byPhase<R extends Route>(routes: readonly R[]): Map<Place, R[]> {
  const phases = new Map<Place, R[]>()
  let list: R[] = []
  phases.set('first', list)
  for (const route of routes) {
    if (route.handle === undefined) list.push(route)
    else {
      list = phases.get(route.handle) ?? []
      phases.set(route.handle, list)
    }
  }
  return phases
}

/** Writes routes phase by phase, each list's in turn. */
export function joinPhases<R extends Route>(...lists: readonly (readonly R[])[]): (R | { handle: Phase })[] {
  const grouped = lists.map(byPhase)
  const places = new Set<Place>(['first', ...grouped.flatMap((phases) => [...phases.keys()])])
  return [...places].flatMap((place) => {
    const routes = grouped.flatMap((phases) => phases.get(place) ?? [])
    return place === 'first' || routes.length === 0 ? routes : [{ handle: place }, ...routes]
  })
}

/**
 * Puts the routes of vercel.json in front of those of Build Output, as Vercel does: within a phase come routes of the output that only
 * add to an answer (`continue`), then those of vercel.json, then the output's look-ups (`check`), and last the rest of its routes.
 */
export function mergeRoutes(users: readonly Route[], own: readonly Route[]): Route[] {
  const usersPhases = byPhase(users)
  const ownPhases = byPhase(own)
  const places = new Set<Place>([...usersPhases.keys(), ...ownPhases.keys()])
  return [...places].flatMap((place) => {
    const kindOf = ({ check, continue: goesOn, override }: Route): 'check' | 'continue' | 'other' =>
      override === true ? 'other' : check === true ? 'check' : goesOn === true ? 'continue' : 'other'
    const ofOutput = Map.groupBy(ownPhases.get(place) ?? [], kindOf)
    const routes = [
      ...(ofOutput.get('continue') ?? []),
      ...(usersPhases.get(place) ?? []),
      ...(ofOutput.get('check') ?? []),
      ...(ofOutput.get('other') ?? []),
    ]
    return place === 'first' || routes.length === 0 ? routes : [{ handle: place }, ...routes]
  })
}
