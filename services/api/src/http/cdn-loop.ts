/** This platform's name in CDN-Loop (RFC 8586). */
export const LOOP_TOKEN = 'platform-edge'

/** True if a request has already passed through this platform, on its way to another origin. */
export const isLoop = (cdnLoop: string | string[] | undefined): boolean =>
  [cdnLoop ?? []]
    .flat()
    .join(',')
    .split(',')
    .some((entry) => entry.split(';', 1)[0]?.trim().toLowerCase() === LOOP_TOKEN)
