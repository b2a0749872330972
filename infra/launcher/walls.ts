import { findNetworkObstacle, findObstacle } from '@platform/sandbox/find-obstacles'

export type FunctionWalls = {
  sandbox: 'required' | 'auto' | 'none'
  egress: 'public' | 'none' | 'host'
  /** A sentence for each missing wall, with what to install or set. */
  warnings: string[]
}

type Wanted = {
  sandbox: FunctionWalls['sandbox']
  /** undefined: as closed as possible on this machine. */
  egress: FunctionWalls['egress'] | undefined
}

type Obstacles = {
  /** Why bubblewrap does not work; undefined if it does. */
  files: string | undefined
  /** Why private addresses cannot be closed; undefined if they can. */
  network: string | undefined
}

export type BuildWalls = {
  egress: 'public' | 'registry' | 'none'
  /** A sentence on what builds cannot do here, with what to install. */
  warnings: string[]
}

/**
 * Finds out which walls Functions and builds can have on this machine, and chooses the matching network. Takes some 50 ms.
 * buildEgress undefined: as open as possible while this machine can close the rest.
 */
export async function findWalls(
  wanted: Wanted,
  buildEgress: BuildWalls['egress'] | undefined,
): Promise<{ functions: FunctionWalls; builds: BuildWalls }> {
  const [files, network] = await Promise.all([findObstacle(false), findNetworkObstacle()])
  const obstacles = { files: files?.reason, network: network?.reason }
  return { functions: chooseFunctionWalls(wanted, obstacles), builds: chooseBuildWalls(buildEgress, obstacles) }
}

/**
 * Chooses the network of builds: as configured, else public addresses if private ones can be closed, else only package
 * registries.
 */
export function chooseBuildWalls(wanted: BuildWalls['egress'] | undefined, { files, network }: Obstacles): BuildWalls {
  const egress = wanted ?? (network === undefined ? 'public' : 'registry')
  if (files !== undefined)
    return {
      egress,
      warnings: [`Source cannot be built, only what is built already is served: install bubblewrap (${files}).`],
    }
  if (egress === 'public' && network !== undefined)
    return {
      egress,
      warnings: [
        `Source cannot be built, because private addresses cannot be closed to builds: install passt, nftables and iproute2 and start as root (${network}), or leave BUILD_EGRESS out.`,
      ],
    }
  if (wanted === undefined && egress === 'registry')
    return {
      egress,
      warnings: [
        `Builds reach package registries and nothing else: install passt, nftables and iproute2 and start as root for public addresses (${network}).`,
      ],
    }
  return { egress, warnings: [] }
}

/** Chooses the walls of Functions: as configured, and otherwise the strongest available. */
export function chooseFunctionWalls(wanted: Wanted, obstacles: Obstacles): FunctionWalls {
  const isPlain = wanted.sandbox === 'none' || (wanted.sandbox === 'auto' && obstacles.files !== undefined)
  const canCloseNetwork = obstacles.files === undefined && obstacles.network === undefined && !isPlain
  const walls = { sandbox: wanted.sandbox, egress: wanted.egress ?? (canCloseNetwork ? 'public' : 'host') }
  const because = (obstacle: string | undefined): string => (obstacle === undefined ? '' : ` (${obstacle})`)
  if (isPlain && (walls.egress === 'host' || wanted.sandbox === 'none'))
    return {
      ...walls,
      warnings: [
        wanted.sandbox === 'none'
          ? 'Functions run as plain processes, which can read this machine and reach its network: leave FUNCTION_SANDBOX out for walls.'
          : `Functions run as plain processes, which can read this machine and reach its network: install bubblewrap${because(obstacles.files)}.`,
      ],
    }
  if (obstacles.files !== undefined)
    return { ...walls, warnings: [`Functions cannot run: install bubblewrap${because(obstacles.files)}.`] }
  if (walls.egress === 'public' && obstacles.network !== undefined)
    return {
      ...walls,
      warnings: [
        `Functions cannot run, because private addresses cannot be closed to them: install passt, nftables and iproute2 and start as root${because(obstacles.network)}, or leave FUNCTION_EGRESS out.`,
      ],
    }
  if (walls.egress === 'host')
    return {
      ...walls,
      warnings: [
        `Functions reach everything that this machine reaches, private addresses too: ${
          obstacles.network === undefined
            ? 'leave FUNCTION_EGRESS out to close these.'
            : `install passt, nftables and iproute2 and start as root${because(obstacles.network)}.`
        }`,
      ],
    }
  return { ...walls, warnings: [] }
}
