import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { CreateDeploymentData } from '@platform/sdk'

type Git = NonNullable<CreateDeploymentData['body']['git']>

/** What is known of a folder's commit. */
export interface Checkout {
  git: Git
  /** Files that are changed, new or missing. */
  changes: number
}

const TIMEOUT_MS = 10_000
const OUTPUT_BYTES_MAX = 64 * 1_024 * 1_024

/**
 * Runs git so that the configuration of a foreign folder starts nothing: no hooks, no watcher, no filters, no signature programs, and
 * no fetch of what a partial clone lacks.
 */
async function runGit(
  folder: string,
  env: Record<string, string | undefined>,
  args: readonly string[],
): Promise<string> {
  const safe = ['core.fsmonitor=false', 'core.hooksPath=/dev/null', 'log.showSignature=false', 'protocol.allow=never']
  const { stdout } = await promisify(execFile)(
    'git',
    ['--no-pager', '--no-optional-locks', ...safe.flatMap((setting) => ['-c', setting]), ...args],
    {
      cwd: folder,
      timeout: TIMEOUT_MS,
      maxBuffer: OUTPUT_BYTES_MAX,
      env: {
        PATH: env['PATH'],
        HOME: env['HOME'],
        LC_ALL: 'C',
        GIT_TERMINAL_PROMPT: '0',
        GIT_NO_LAZY_FETCH: '1',
        GIT_ALLOW_PROTOCOL: '',
      },
    },
  )
  return stdout
}

/**
 * Settings that take every filter away which the configuration names: `git status` would run them on changed files. Throws for names
 * that no argument can have, with "=", where `-c` ends it, or not in UTF-8; and where the configuration cannot be read: what it names
 * is not known then.
 */
async function withoutFilters(run: (args: readonly string[]) => Promise<string>): Promise<string[]> {
  const listed = await run(['config', '--null', '--name-only', '--get-regexp', '^filter\\.']).catch(orNothing)
  const names = new Set(listed.split('\0').flatMap((name) => /^filter\.(.*)\.[^.]+$/s.exec(name)?.[1] ?? []))
  return [...names].flatMap((name) => {
    if (/[=\uFFFD]/.test(name)) throw new Error(`The filter ${name} cannot be taken away`)
    return ['clean=', 'smudge=', 'process=', 'required=false'].flatMap((setting) => ['-c', `filter.${name}.${setting}`])
  })
}

/** git found nothing of what it was asked for. */
function orNothing(error: unknown): string {
  if ((error as { code?: unknown }).code === 1) return ''
  throw error
}

/** The address of a repository without what signs in to it; undefined unless it is a web address. */
export function repositoryUrl(remote: string): string | undefined {
  const address = remote.trim().replace(/^(?:ssh:\/\/)?[\w.-]+@([\w.-]+):(?!\d)/, 'https://$1/')
  if (!URL.canParse(address)) return undefined
  const { protocol, hostname, port, pathname } = new URL(address)
  if (!/^(?:https?|ssh|git):$/.test(protocol) || !hostname) return undefined
  const isWeb = protocol === 'http:' || protocol === 'https:'
  const url = `${isWeb ? protocol : 'https:'}//${hostname}${isWeb && port ? `:${port}` : ''}${pathname}`.replace(
    /\.git\/?$/,
    '',
  )
  return url.length <= 2_048 && !/[\s\\]/.test(url) ? url : undefined
}

/** As many characters at most, without invisible ones. */
function cut(text: string, max: number): string {
  // oxlint-disable-next-line no-control-regex -- they are refused
  const characters = Array.from(text.replace(/[\0-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g, '').trim())
  return characters.slice(0, max).join('')
}

/** What a CI server says of its run, where git cannot know it. */
export function readCi(env: Record<string, string | undefined>): Git {
  const { GITHUB_ACTIONS, GITHUB_SERVER_URL, GITHUB_REPOSITORY, GITHUB_REF, GITHUB_HEAD_REF, GITHUB_REF_NAME } = env
  const { GITLAB_CI, CI_PROJECT_URL, CI_COMMIT_REF_NAME, CI_MERGE_REQUEST_IID, CI_MERGE_REQUEST_SOURCE_BRANCH_NAME } =
    env
  if (GITHUB_ACTIONS) {
    const pullRequest = /^refs\/pull\/(\d+)\//.exec(GITHUB_REF ?? '')?.[1]
    return described(
      GITHUB_HEAD_REF || GITHUB_REF_NAME,
      pullRequest,
      GITHUB_REPOSITORY && `${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}`,
    )
  }
  if (GITLAB_CI)
    return described(CI_MERGE_REQUEST_SOURCE_BRANCH_NAME || CI_COMMIT_REF_NAME, CI_MERGE_REQUEST_IID, CI_PROJECT_URL)
  return {}
}

function described(branch: string | undefined, pullRequest: string | undefined, repository: string | undefined): Git {
  const number = Number(pullRequest)
  const url = repository && repositoryUrl(repository)
  return {
    ...(branch && { branch: cut(branch.replace(/\s+/g, ' '), 255) }),
    ...(Number.isInteger(number) && number > 0 && number < 2 ** 31 && { pullRequest: number }),
    ...(url && { repository: url }),
  }
}

/** The commit that a folder is checked out at; undefined outside of a repository, without git, and before the first commit. */
export async function readCheckout(
  folder: string,
  env: Record<string, string | undefined>,
): Promise<Checkout | undefined> {
  const run = (args: readonly string[]) => runGit(folder, env, args)
  try {
    const commit = (await run(['rev-parse', '--verify', 'HEAD^{commit}'])).trim()
    const [text, branch, remote, filters] = await Promise.all([
      run(['cat-file', 'commit', commit]),
      run(['symbolic-ref', '--quiet', '--short', 'HEAD']).catch(orNothing),
      run(['config', '--get', 'remote.origin.url']).catch(orNothing),
      withoutFilters(run),
    ])
    const status = await run([
      ...filters,
      'status',
      '--porcelain',
      '-z',
      '--no-renames',
      '--untracked-files=normal',
      '--ignore-submodules=all',
      '--',
      '.',
    ])
    const changes = status.split('\0').filter((line) => line !== '').length
    const message = cut(text.slice(text.indexOf('\n\n') + 2), 1_000)
    const repository = repositoryUrl(remote)
    return {
      changes,
      git: {
        commit,
        ...(message && { message }),
        ...(branch.trim() && { branch: cut(branch, 255) }),
        ...(repository && { repository }),
        isDirty: changes > 0,
        ...readCi(env),
      },
    }
  } catch {
    return undefined
  }
}
