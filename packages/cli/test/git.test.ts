import { execFile } from 'node:child_process'
import { access, appendFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { readCheckout, readCi, repositoryUrl } from '../src/git.ts'

// oxlint-disable-next-line node/no-process-env -- git needs to be found
const { PATH = '' } = process.env

/** A repository until the test ends, and git in it, as somebody without settings of their own. */
async function newRepository() {
  const home = await mkdtemp(join(tmpdir(), 'git-'))
  onTestFinished(() => rm(home, { recursive: true }))
  const folder = join(home, 'shop')
  await mkdir(folder)
  const env = { PATH, HOME: home }
  const who = ['-c', 'user.name=Ana', '-c', 'user.email=ana@example.com']
  const git = async (...args: string[]): Promise<string> =>
    (await promisify(execFile)('git', [...who, ...args], { cwd: folder, env })).stdout.trim()
  await git('init', '--quiet', '--initial-branch=main')
  return {
    folder,
    git,
    configure: (text: string) => appendFile(join(folder, '.git/config'), text),
    commit: async (message: string) => {
      await git('commit', '--quiet', '--allow-empty', '--cleanup=verbatim', '-m', message)
      return git('rev-parse', 'HEAD')
    },
    read: (more: Record<string, string> = {}, place = folder) => readCheckout(place, { ...env, ...more }),
  }
}

const SHOP = 'https://git.example.com/acme/shop'

test('the repository of a remote is its page, without what signs in', () => {
  for (const [remote, url] of [
    ['https://git.example.com/acme/shop.git', SHOP],
    ['https://ana:t0ken@git.example.com/acme/shop.git', SHOP],
    ['https://t0ken@git.example.com:8443/acme/shop', 'https://git.example.com:8443/acme/shop'],
    ['https://git.example.com/acme/shop.git/', SHOP],
    ['https://git.example.com/acme/shop?private_token=t0ken#t0ken', SHOP],
    ['http://git.example.com:3000/acme/shop', 'http://git.example.com:3000/acme/shop'],
    ['git@git.example.com:acme/shop.git', SHOP],
    ['ssh://git@git.example.com/acme/shop.git', SHOP],
    ['ssh://git:t0ken@git.example.com:2222/acme/shop.git', SHOP],
    ['git://git.example.com/acme/shop.git', SHOP],
    [' https://git.example.com/acme/shop\n', SHOP],
  ] as const)
    expect([remote, repositoryUrl(remote)]).toEqual([remote, url])
})

test('a path, a program and a remote that the platform would refuse name no repository', () => {
  for (const remote of [
    '',
    '/srv/git/shop.git',
    '../shop.git',
    'file:///srv/git/shop.git',
    String.raw`C:\git\shop`,
    'C:/git/shop',
    String.raw`\\server\git\shop`,
    'ext::sh -c touch% /tmp/x',
    'https://ana:t0/ken@git.example.com/shop',
    `https://git.example.com/${'a'.repeat(2_048)}`,
  ])
    expect([remote, repositoryUrl(remote)]).toEqual([remote, undefined])
})

test('a checkout is its commit, branch, message and repository, and whether anything differs from it', async () => {
  const { folder, configure, commit, read } = await newRepository()
  await configure('[remote "origin"]\n  url = https://ana:t0ken@git.example.com/acme/shop.git\n')
  // Whether git itself shows new files is a matter of taste; they are deployed all the same.
  await configure('[status]\n  showUntrackedFiles = no\n')
  const id = await commit('Show the total\n\nbefore paying\n')
  const known = { commit: id, branch: 'main', message: 'Show the total\n\nbefore paying', repository: SHOP }
  expect(await read()).toEqual({ changes: 0, git: { ...known, isDirty: false } })

  await mkdir(join(folder, 'pages'))
  await writeFile(join(folder, 'pages/index.html'), '')
  await writeFile(join(folder, 'about.html'), '')
  expect(await read()).toEqual({ changes: 2, git: { ...known, isDirty: true } })
  // What lies beside the folder that is deployed is no change of it.
  expect(await read({}, join(folder, 'pages'))).toMatchObject({ changes: 1 })
})

test('a checkout of no branch has none, and its message is cut to 1,000 characters, none of them by half and no control among them', async () => {
  const { git, commit, read } = await newRepository()
  const id = await commit(`\u001b[31m${'🛒'.repeat(1_001)}\u009b`)
  await git('checkout', '--quiet', '--detach')
  const message = `[31m${'🛒'.repeat(996)}`
  expect((await read())?.git).toEqual({ commit: id, message, isDirty: false })
  // The CI server knows where it came from.
  const ci = { GITLAB_CI: 'true', CI_COMMIT_REF_NAME: 'main' }
  expect((await read(ci))?.git).toEqual({ commit: id, branch: 'main', message, isDirty: false })
})

test('a repository without commits, a folder without one, and a machine without git give no checkout', async () => {
  const { folder, commit, read } = await newRepository()
  expect(await read()).toBeUndefined()
  await commit('First')
  expect(await read({ PATH: folder })).toBeUndefined()
  expect(await read({}, join(folder, '..'))).toBeUndefined()
})

test('where the configuration cannot be read, git is not asked what differs: it would run what is named there', async () => {
  const { folder, commit, read } = await newRepository()
  await commit('First')
  const asked = join(folder, 'asked')
  const program = `#!/bin/sh\ncase "$*" in *get-regexp*) exit 128;; *status*) touch ${asked};; esac\nPATH=${PATH} exec git "$@"\n`
  await writeFile(join(folder, 'git'), program, { mode: 0o755 })
  expect(await read({ PATH: folder })).toBeUndefined()
  await expect(access(asked)).rejects.toThrow('ENOENT')
})

test('GitHub and GitLab name the branch, the pull request and the repository of a run', () => {
  const github = {
    GITHUB_ACTIONS: 'true',
    GITHUB_SERVER_URL: 'https://github.com',
    GITHUB_REPOSITORY: 'acme/shop',
    GITHUB_REF: 'refs/heads/main',
    GITHUB_REF_NAME: 'main',
    GITHUB_HEAD_REF: '',
  }
  const repository = 'https://github.com/acme/shop'
  expect(readCi(github)).toEqual({ branch: 'main', repository })
  const pull = { GITHUB_REF: 'refs/pull/42/merge', GITHUB_REF_NAME: '42/merge', GITHUB_HEAD_REF: 'feature/checkout' }
  expect(readCi({ ...github, ...pull })).toEqual({ branch: 'feature/checkout', pullRequest: 42, repository })

  const gitlab = {
    GITLAB_CI: 'true',
    CI_PROJECT_URL: 'https://ana:t0ken@gitlab.example.com/acme/shop',
    CI_COMMIT_REF_NAME: 'main',
  }
  const project = 'https://gitlab.example.com/acme/shop'
  expect(readCi(gitlab)).toEqual({ branch: 'main', repository: project })
  const merge = { CI_MERGE_REQUEST_IID: '7', CI_MERGE_REQUEST_SOURCE_BRANCH_NAME: 'feature/checkout' }
  expect(readCi({ ...gitlab, ...merge })).toEqual({ branch: 'feature/checkout', pullRequest: 7, repository: project })
  // Without the server that they are of, variables of these names mean nothing.
  expect(readCi({ ...pull, ...merge })).toEqual({})
})
