import { tokenFile } from '../src/node/index.ts'

// A program on a shared token file: node sign-in-process.ts <JSON>. Each message makes it call; it answers `waits` before it takes
// the lock, and the outcome. Without a baseUrl it loads no more than it needs to take the lock, says so, and keeps it.
interface Given {
  path: string
  baseUrl?: string
}
const { path, baseUrl } = JSON.parse(process.argv[2] ?? '') as Given
const file = tokenFile(path)
const say = (what: string) => process.send?.(what)

if (baseUrl) {
  const { listOrganizations, Platform, userToken } = await import('../src/index.ts')
  const newPlatform = () => {
    const lock: typeof file.lock = (work) => {
      say('waits')
      return file.lock(work)
    }
    return new Platform({ baseUrl, credential: userToken({ store: { ...file, lock } }) })
  }
  let platform: ReturnType<typeof newPlatform> | undefined
  process.on('message', (asked: { isNew: boolean }) => {
    platform = asked.isNew || !platform ? newPlatform() : platform
    listOrganizations(platform).then(
      () => say('called'),
      (error: unknown) => say(String(error)),
    )
  })
  say('ready')
} else {
  await file.lock(() => {
    say('holds')
    return new Promise(() => {})
  })
}
