import type { EdgeDeps } from '../deps.ts'

/** Logs how Functions are isolated on this machine. Takes longer than a start may. */
export async function reportWalls({ functions, logger }: Pick<EdgeDeps, 'functions' | 'logger'>): Promise<void> {
  const probed = await functions.probe()
  if (probed.obstacle !== undefined) {
    logger.warn(`Functions cannot run here: ${probed.obstacle}`)
    return
  }
  const { missing, ...walls } = probed.capabilities
  logger.info(walls, 'Functions can run')
  for (const sentence of missing) logger.warn(sentence)
}
