/** What this platform is called in CDN-Loop (RFC 8586). */
export const LOOP_TOKEN = 'platform-edge'

/** Whether a request has passed this platform already, on its way to another origin. */
export const isLoop = (cdnLoop: string | string[] | undefined): boolean =>
  [cdnLoop ?? []]
    .flat()
    .join(',')
    .split(',')
    .some((entry) => entry.split(';', 1)[0]?.trim().toLowerCase() === LOOP_TOKEN)
